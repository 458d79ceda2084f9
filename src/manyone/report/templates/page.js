'use strict';
const root = document.documentElement;
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

// Tables: a heading sorts its column upwards, once more downwards; empty cells stay last. Columns
// with a number in any cell go by numbers, others by their words.
for (const table of all('table.sortable')) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.firstChild.addEventListener('click', () => {
    const down = head.getAttribute('aria-sort') === 'ascending';
    heads.forEach(other => other.removeAttribute('aria-sort'));
    head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
    const numbers = [...body.rows].some(row => 'value' in row.cells[column].dataset);
    const value = row => numbers ? parseFloat(row.cells[column].dataset.value)
                                 : row.cells[column].textContent;
    const empty = x => x !== x || x === '';
    body.append(...[...body.rows].sort((a, b) => {
      const x = value(a), y = value(b);
      if (empty(x) || empty(y)) return empty(x) - empty(y);
      return (down ? -1 : 1) * (x < y ? -1 : x > y ? 1 : 0);
    }));
  }));
}

// Light and dark: as the system has it, until the switch says otherwise.
const system = matchMedia('(prefers-color-scheme: dark)'), button = document.getElementById('theme');
const dark = () => root.dataset.theme ? root.dataset.theme === 'dark' : system.matches;
function applyTheme() {
  button.textContent = dark() ? 'Light' : 'Dark';
  drawn.forEach(draw);
}
button.addEventListener('click', () => {
  root.dataset.theme = dark() ? 'light' : 'dark';
  applyTheme();
});
system.addEventListener('change', applyTheme);

// Figures: drawn when they come near the window, in the colours of the page.
const drawn = new Set(), touch = matchMedia('(pointer: coarse)').matches;
let charts = {};
function themed(part) {  // strings '--name' are variables of the page
  if (typeof part === 'string')
    return part.startsWith('--') ? getComputedStyle(root).getPropertyValue(part).trim() : part;
  if (Array.isArray(part)) return part.map(themed);
  if (part === null || typeof part !== 'object') return part;
  return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, themed(value)]));
}

function draw(plot) {
  drawn.add(plot);
  const { data, layout } = themed(charts[plot.dataset.chart][plot.dataset.panel]);
  const off = new Set(all('.legend [data-name][aria-pressed=false]', plot.closest('figure'))
    .map(entry => entry.dataset.name));
  for (const trace of data) trace.visible = !off.has(trace.name);
  // A finger that moves over a figure wants to scroll.
  return Plotly.react(plot, data, { ...layout, dragmode: touch ? false : 'zoom', uirevision: 1 },
    { responsive: true, displayModeBar: false });
}

for (const figure of all('figure')) {
  const press = (entry, on) => entry.setAttribute('aria-pressed', on);
  for (const entry of all('.legend button', figure)) entry.addEventListener('click', () => {
    const on = entry.getAttribute('aria-pressed') === 'false';
    press(entry, on);
    if (!entry.dataset.name) all('button', entry.parentElement).forEach(mine => press(mine, on));
    all('.plot', figure).filter(plot => drawn.has(plot)).forEach(draw);
  });
}

async function unpack(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = Uint8Array.from(packed, letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

async function start() {
  const library = document.createElement('script');
  library.textContent = await unpack('library');
  document.head.append(library);
  charts = JSON.parse(await unpack('charts'));
  const near = new IntersectionObserver(entries => {
    for (const { isIntersecting, target } of entries) if (isIntersecting) {
      near.unobserve(target);
      draw(target);
    }
  }, { rootMargin: '60% 0%' });
  all('.plot').forEach(plot => near.observe(plot));
}

applyTheme();
// Browsers that cannot unpack show the figures as images.
if (root.classList.contains('live') && document.getElementById('library')) start().catch(error => {
  root.classList.remove('live');
  throw error;
});
