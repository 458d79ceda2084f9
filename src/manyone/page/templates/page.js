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
}
button.addEventListener('click', () => {
  root.dataset.theme = dark() ? 'light' : 'dark';
  applyTheme();
});
system.addEventListener('change', applyTheme);

async function unpack(id) {
  const packed = atob(document.getElementById(id).textContent);
  const bytes = Uint8Array.from(packed, letter => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream).text();
}

applyTheme();
