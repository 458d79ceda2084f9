
// ------------------------------------------------------------------ the page of a model and a table
// Names and reasons are data: they reach the page as text nodes, never as markup.
function make(tag, attributes = {}, ...children) {
  const svg = ['svg', 'path', 'circle', 'line', 'rect', 'text', 'title'].includes(tag);
  const node = svg ? document.createElementNS('http:/' + '/www.w3.org/2000/svg', tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes))
    if (key === 'onclick') node.addEventListener('click', value);
    else if (value !== undefined && value !== false) node.setAttribute(key, value === true ? '' : value);
  node.append(...children.filter(child => child !== undefined && child !== null && child !== ''));
  return node;
}

const whole = n => n.toLocaleString('en-US');
const digits = x => x === null ? 'none' : Math.abs(x) >= 1e5 || (x && Math.abs(x) < 1e-3) ? x.toExponential(1) : String(+x.toPrecision(3));
const byChance = x => x >= 10 ? x.toFixed(0) : x >= .095 ? x.toFixed(1) : x >= .001 ? String(+x.toPrecision(2)) : '< 0.001';

// A name that keeps its end where there is no room: often only the end tells two names apart.
function named(name) {
  let k = Math.max(0, name.length - 6);
  while (k > 0 && /\s/.test(name.slice(k - 1, k + 1))) k--;  // a space would be lost there
  return make('span', { class: 'name' }, make('span', {}, name.slice(0, k)), make('span', {}, name.slice(k)));
}

let data, moment;

// ---- A list of any length: only the lines in sight are in the document.
class List {
  constructor(name, size, columns, found, open) {
    Object.assign(this, { columns, found, open, size, lines: new Map() });
    this.root = document.getElementById('list-' + name);
    this.box = this.root.querySelector('.scroll');
    this.search = this.root.querySelector('input[type=search]');
    this.count = this.root.querySelector('output');
    this.space = make('div', { class: 'space', role: 'rowgroup' });
    this.heads = make('div', { class: 'heads', role: 'row' }, ...columns.map((column, k) =>
      make('div', { role: 'columnheader', class: this.look(column) },
        column.key ? make('button', { type: 'button', onclick: () => this.sort(k) }, column.head) : column.head)));
    this.box.replaceChildren(this.heads, this.space);
    this.box.setAttribute('role', 'table');
    this.word = this.root.dataset.list;
    let wait = 0;
    this.search.addEventListener('input', () => { clearTimeout(wait); wait = setTimeout(() => this.filter(), 60); });
    this.root.querySelector('.only input')?.addEventListener('change', () => this.filter());
    this.box.addEventListener('scroll', () => this.draw(), { passive: true });
    this.box.addEventListener('keydown', event => this.step(event));
    new ResizeObserver(() => this.measure()).observe(this.box);
    this.order = Uint32Array.from({ length: size }, (_, i) => i);
    this.sorted = null;
    this.filter();
  }
  look(column) { return [column.number && 'number', column.wide && 'wide-only', column.second && 'second'].filter(Boolean).join(' ') || undefined; }

  measure() {  // lines are as high as the style says, higher where columns have no room side by side
    const narrow = matchMedia('(max-width: 44rem)').matches;
    const two = narrow && this.columns.some(column => column.second);
    this.height = two ? 56 : 34;
    const shown = this.columns.filter(column => !narrow || !(column.wide || column.second));
    this.box.style.setProperty('--columns', shown.map(column => narrow && column.narrow || column.width).join(' '));
    this.box.style.setProperty('--height', this.height + 'px');
    all('.second', this.heads).forEach(head => head.classList.toggle('wide-only', narrow));
    this.clear();
  }
  clear() { this.space.replaceChildren(); this.lines.clear(); this.draw(); }

  filter() {
    const words = this.search.value.trim().toLowerCase();
    const only = this.root.querySelector('.only input')?.checked;
    const keep = this.found(words, only);
    this.shown = keep ? this.order.filter(keep) : this.order;
    const kind = n => n === 1 ? this.word.slice(0, -1) : this.word;
    this.count.textContent = this.shown.length === this.size ? `${whole(this.size)} ${kind(this.size)}`
      : `${whole(this.shown.length)} of ${whole(this.size)} ${kind(this.size)}`;
    this.box.setAttribute('aria-rowcount', this.shown.length + 1);
    this.box.scrollTop = 0;
    if (this.height) this.clear(); else this.measure();
  }

  sort(k) {
    const column = this.columns[k], head = this.heads.children[k], now = head.getAttribute('aria-sort');
    const first = column.number && !column.up ? 'descending' : 'ascending';
    const way = now ? (now === 'ascending' ? 'descending' : 'ascending') : first;
    for (const other of this.heads.children) other.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', way);
    const sign = way === 'ascending' ? 1 : -1, values = column.key;
    this.order = this.order.slice().sort((a, b) => {
      const x = values[a], y = values[b];
      if (x === null || y === null) return (x === null) - (y === null);  // what is missing stays last
      return (x < y ? -sign : x > y ? sign : 0) || a - b;
    });
    this.filter();
  }

  draw() {
    const n = this.shown.length, h = this.height, lines = this.lines;
    this.space.style.height = n * h + 'px';
    if (!n) return this.space.replaceChildren(make('div', { class: 'none' }, 'Nothing found.'));
    const top = Math.max(0, this.box.scrollTop - 32), room = this.box.clientHeight || 600;
    const from = Math.max(0, Math.floor(top / h) - 4), to = Math.min(n, Math.ceil((top + room) / h) + 4);
    for (const [i, line] of lines) if (i < from || i >= to) {
      if (line.contains(document.activeElement)) continue;  // what has the focus keeps it
      line.remove();
      lines.delete(i);
    }
    for (let i = from; i < to; i++) if (!lines.has(i)) {
      const item = this.shown[i];
      const cells = this.columns.map((column, k) => {
        const value = column.cell(item), cell = make('div', { role: 'cell', class: this.look(column) });
        const shown = column.name ? named(value) : value ?? '';
        if (k === 0) cell.append(make('button', { type: 'button', class: 'open', title: value }, shown));
        else cell.append(shown);
        if (typeof value === 'string' && k > 0 && !column.number) cell.title = value;
        if (column.hot?.(item)) cell.classList.add('hot');
        if (column.number && column.key && !column.key[item]) cell.classList.add('zero');
        return cell;
      });
      const line = make('div', { class: 'line', role: 'row', 'aria-rowindex': i + 2, style: `top:${i * h}px`,
        onclick: () => this.open(item) }, ...cells);
      line.dataset.place = i;
      lines.set(i, line);
      this.space.append(line);
    }
  }

  step(event) {  // arrows go from line to line
    const way = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }[event.key];
    const line = event.target.closest('.line');
    if (!way || !line) return;
    event.preventDefault();
    const i = Math.min(this.shown.length - 1, Math.max(0, +line.dataset.place + way)), h = this.height;
    const room = this.box.clientHeight - 32, top = this.box.scrollTop;
    if (i * h < top) this.box.scrollTop = i * h;
    else if ((i + 1) * h > top + room) this.box.scrollTop = (i + 1) * h - room;
    this.draw();
    this.lines.get(i)?.querySelector('button').focus({ preventScroll: true });
  }
}

// ---- Scores of a task on the scale that all tasks share: 0 the threshold, 1 a typical normal row.
const scaled = (t, score) => data.tasks.threshold[t] === null ? 1 : (score - data.tasks.threshold[t]) / data.tasks.unit[t];
function across(u, width, edge = 4) {
  const [low, high] = data.domain;
  return edge + (Math.min(high, Math.max(low, u)) - low) / (high - low) * (width - 2 * edge);
}
const leftOut = t => data.left.slice(data.tasks.starts[t], data.tasks.starts[t + 1]);

function strip(t) {
  const width = 240, svg = make('svg', { class: 'strip', viewBox: `0 0 ${width} 20`, preserveAspectRatio: 'none', 'aria-hidden': 'true' });
  const strokes = thinned(leftOut(t), 60).map(s => `M${across(scaled(t, s), width).toFixed(1)} 3v6`).join('');
  svg.append(make('path', { class: 'left', d: strokes }));
  const mine = byTask[t] ? thinned(byTask[t], 120) : [];
  for (const pass of [0, 1]) {
    const d = mine.filter(i => data.rows.alarm[i] === pass)
      .map(i => `M${(across(scaled(t, data.rows.score[i]), width) - 1.6).toFixed(1)} 12h3.2v4.5h-3.2z`).join('');
    if (d) svg.append(make('path', { class: pass ? 'alarm' : 'calm', d }));
  }
  const x = across(0, width);
  svg.append(make('path', { class: 'limit', d: `M${x} 0v20`, fill: 'none' }));
  return svg;
}
// Of very many values every k-th, the ends always: they are ascending.
function thinned(values, most) {
  if (values.length <= most) return values;
  return Array.from({ length: most }, (_, k) => values[Math.round(k * (values.length - 1) / (most - 1))]);
}

const wide = () => Math.min(640, innerWidth - 32);  // so that letters keep their size on a phone
function picture(t) {  // both lanes with counts, and the axis
  const width = wide(), height = 150, svg = make('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'Scores of the task' });
  const lane = (values, base, top, kind) => {
    if (!values.length) return;
    const bins = Math.round(width / 10), counts = new Map();
    for (const [score, alarm] of values) {
      const place = Math.min(bins - 1, Math.floor((across(scaled(t, score), width, 6) - 6) / (width - 12) * bins));
      const pair = counts.get(place) ?? [0, 0];
      pair[alarm]++;
      counts.set(place, pair);
    }
    const most = Math.max(...[...counts.values()].map(([a, b]) => a + b));
    const step = Math.min(9, (base - top) / most), w = (width - 12) / bins;
    for (const [place, pair] of counts) {
      const x = 6 + place * w + 1;
      const calm = pair[0] * step, hot = pair[1] * step;
      if (calm) svg.append(make('rect', { x, y: base - calm, width: w - 2, height: Math.max(calm - (step > 4 ? 1 : 0), 1), class: kind }));
      if (hot) svg.append(make('rect', { x, y: base - calm - hot, width: w - 2, height: Math.max(hot - (step > 4 ? 1 : 0), 1), class: 'alarm' }));
    }
  };
  lane(leftOut(t).map(score => [score, 0]), 62, 14, 'bars');
  lane((byTask[t] ?? []).map(i => [data.rows.score[i], data.rows.alarm[i]]), 132, 80, 'calm');
  const x = across(0, width, 6);
  svg.append(make('line', { class: 'axis', x1: 0, x2: width, y1: 62.5, y2: 62.5 }), make('text', { x: 0, y: 10 }, 'training rows, left out'));
  if (data.rows) svg.append(make('line', { class: 'axis', x1: 0, x2: width, y1: 132.5, y2: 132.5 }), make('text', { x: 0, y: 78 }, 'new rows'));
  svg.append(make('line', { class: 'limit', x1: x, x2: x, y1: 0, y2: data.rows ? 132 : 62 }),
    make('text', { x: Math.max(x, 60), y: data.rows ? 146 : 76, 'text-anchor': 'middle' }, `threshold ${digits(data.tasks.threshold[t])}`));
  if (!data.rows) svg.setAttribute('viewBox', `0 0 ${width} 82`);
  return svg;
}

function timePicture(t) {  // score of each row over time
  const width = wide(), height = 110, mine = byTask[t] ?? [];
  const times = mine.map(i => data.rows.time[i]), low = Math.min(...times), high = Math.max(...times);
  if (!(high > low)) return '';
  const svg = make('svg', { viewBox: `0 0 ${width} ${height}`, role: 'img', 'aria-label': 'Scores of the task over time' });
  const y = u => 86 - across(u, 82, 2), x = time => 5 + (time - low) / (high - low) * (width - 10);
  const paths = ['', ''];
  for (const i of thinned(mine, 3000)) paths[data.rows.alarm[i]] +=
    `M${(x(data.rows.time[i]) - 2.2).toFixed(1)} ${y(scaled(t, data.rows.score[i])).toFixed(1)}a2.2 2.2 0 1 0 4.4 0a2.2 2.2 0 1 0-4.4 0z`;
  svg.append(make('line', { class: 'limit', x1: 0, x2: width, y1: y(0), y2: y(0) }),
    make('path', { class: 'calm', d: paths[0] }), make('path', { class: 'alarm', d: paths[1] }),
    make('text', { x: 0, y: 104 }, moment(low)), make('text', { x: width, y: 104, 'text-anchor': 'end' }, moment(high)));
  return svg;
}

// ---- What somebody says of alarms: kept by the browser, saved as a table that watch takes.
const WORDS = { normal: 'normal', fault: 'fault', later: 'not now' };
const given = new Map();  // answers of this page, by the place of the row
const answered = i => given.get(i) ?? data.rows.answer?.[i] ?? '';
const idOf = i => data.rows.id?.[i] ?? String(data.rows.number[i]);
const answerKey = () => 'manyone answers ' + data.key;
let kept = true, saved = true;

function answerButtons(rows, what) {  // rows that one click answers
  const group = make('span', { class: 'answer', role: 'group', 'aria-label': what }, make('span', { class: 'soft' }, what));
  group.rows = rows;
  for (const [answer, word] of Object.entries(WORDS)) group.append(make('button', { type: 'button', 'data-answer': answer,
    onclick: () => answerRows(rows, rows.every(i => answered(i) === answer) ? '' : answer) }, word));
  return group;
}
function answerRows(rows, answer) {
  for (const i of rows) if (answer === (data.rows.answer?.[i] ?? '')) given.delete(i); else given.set(i, answer);
  saved = false;
  try {
    localStorage.setItem(answerKey(), JSON.stringify([...given]));
    kept = true;
  } catch { kept = false; }  // said beside the button
  showAnswers();
}
function showAnswers() {
  for (const group of all('.answer')) for (const button of all('button', group))
    button.setAttribute('aria-pressed', group.rows.every(i => answered(i) === button.dataset.answer));
  const told = [...given.values()].filter(Boolean).length;
  for (const bar of all('.answers-bar')) {
    bar.hidden = told === 0;
    bar.querySelector('output').textContent = `${whole(told)} ${told === 1 ? 'answer' : 'answers'}` +
      (saved ? ', saved as answers.csv' : kept ? '' : '. This browser keeps none: save them before you close the page');
  }
  rowsList?.clear();
}
function answersBar() {
  return make('div', { class: 'answers-bar', hidden: true }, make('output', { 'aria-live': 'polite' }),
    make('button', { type: 'button', class: 'save', onclick: saveAnswers }, 'Save answers.csv'),
    make('span', { class: 'soft' }, 'then: manyone watch … --feedback answers.csv'));
}
function saveAnswers() {
  const cell = text => /[",\r\n]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text;
  const lines = [...given].filter(([, answer]) => answer).map(([i, answer]) => `${cell(idOf(i))},${answer}\n`);
  const address = URL.createObjectURL(new Blob(['id,answer\n', ...lines], { type: 'text/csv' }));
  make('a', { href: address, download: 'answers.csv' }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
  saved = true;
  showAnswers();
}
function recallAnswers() {
  let text = null;
  try { text = localStorage.getItem(answerKey()); } catch { kept = false; }
  for (const [i, answer] of JSON.parse(text ?? '[]')) given.set(i, answer);
  saved = given.size === 0;
  addEventListener('beforeunload', event => { if (!saved && !kept) event.preventDefault(); });
}

// ---- A task, opened beside the page.
const byTask = [];
let dialog, rowsList;
function openTask(t, marked = [], isIncident = false) {
  const tasks = data.tasks, rows = data.rows, name = tasks.name[t];
  const tile = (head, value, note, bad) => make('div', { class: bad && 'bad' }, make('dt', {}, head), make('dd', {}, value), make('dd', { class: 'soft' }, note));
  const parts = [make('header', {}, make('h2', { id: 'task-name', tabindex: '-1' }, name),
    make('button', { type: 'button', class: 'close', onclick: () => dialog.close() }, 'Close'))];
  const basis = { own: 'threshold of its own', pooled: 'threshold from its and other tasks', unknown: 'never seen in training' }[tasks.basis[t]];
  const tiles = [tile('training rows', whole(tasks.trained[t]), basis)];
  if (rows) tiles.push(tile('new rows', whole(tasks.rows[t])),
    tile('alarms', whole(tasks.alarms[t]), `at most ${digits(data.rate * tasks.rows[t])} promised`, tasks.outstanding[t]),
    tile('by chance', tasks.alarms[t] ? byChance(tasks.chance[t]) : '–', 'tasks show as much'));
  parts.push(make('dl', { class: 'tiles' }, ...tiles), make('h3', {}, 'Scores'), picture(t));
  if (rows?.time && byTask[t]) parts.push(make('h3', {}, 'Over time'), timePicture(t));
  if (isIncident && marked.length > 1) parts.push(answerButtons(marked, `All ${whole(marked.length)} alarms of this incident:`));
  if (rows && byTask[t]) {
    const order = byTask[t].slice().sort((a, b) => rows.p[a] - rows.p[b] || rows.score[a] - rows.score[b]);
    const front = new Set(marked), worst = [...marked, ...order.filter(i => !front.has(i))].slice(0, 40);
    parts.push(make('h3', {}, worst.length < tasks.rows[t] ? `Worst ${worst.length} rows` : 'Rows, worst first'),
      make('ul', { class: 'reports' }, ...worst.map(i => make('li', { class: [!rows.alarm[i] && 'calm', front.has(i) && 'mine'].filter(Boolean).join(' ') },
        make('span', {}, make('b', {}, rows.id ? idOf(i) : `row ${rows.number[i]}`), rows.time ? ` · ${moment(rows.time[i])}` : '', rows.alarm[i] ? '' : ' · no alarm'),
        make('span', { class: 'number' }, `p ${digits(rows.p[i])} · score ${digits(rows.score[i])}`),
        ...(data.reasons[rows.reason[i]] ?? []).filter(Boolean).map(why => make('span', { class: 'why' }, why)),
        data.notes[rows.reason[i]] ? make('span', { class: 'why soft' }, data.notes[rows.reason[i]]) : '',
        rows.alarm[i] ? answerButtons([i], 'This alarm:') : ''))));
  }
  const near = related(t);
  if (near.length) parts.push(make('h3', {}, 'Related tasks'), make('div', { class: 'chips' }, ...near.map(([other, weight]) =>
    make('button', { type: 'button', title: `weight ${digits(weight)}`, onclick: () => openTask(other) }, tasks.name[other]))));
  if (rows) parts.push(answersBar());
  dialog.replaceChildren(...parts);
  if (rows) showAnswers();
  dialog.scrollTop = 0;
  if (!dialog.open) dialog.showModal();
  document.getElementById('task-name').focus({ preventScroll: true });
  history.replaceState(null, '', '#task=' + encodeURIComponent(name));
}
function related(t) {
  const { first = [], second = [], weight = [] } = data.near ?? {}, found = [];
  for (let k = 0; k < first.length; k++)
    if (first[k] === t) found.push([second[k], weight[k]]); else if (second[k] === t) found.push([first[k], weight[k]]);
  found.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  return [...new Map(found.reverse()).entries()].reverse().slice(0, 8);
}

// ---- The three lists.
function lists() {
  const { tasks, rows, incidents } = data, T = tasks.name.length;
  const lower = tasks.name.map(name => name.toLowerCase());
  const inTask = words => { const hit = new Uint8Array(T); for (let t = 0; t < T; t++) hit[t] = lower[t].includes(words); return hit; };
  const number = (head, key, more = {}) => ({ head, key, number: true, width: '4.6rem', cell: i => whole(key[i]), ...more });
  const chance = list => number('by chance', list.chance, { up: true, width: '5.2rem', cell: i => byChance(list.chance[i]), hot: i => list.outstanding[i] });
  if (incidents) {
    const reason = i => (data.reasons[rows.reason[incidents.rows[i][0]]] ?? [''])[0];
    const spanned = i => brief(incidents.begin[i]) + (incidents.end[i] > incidents.begin[i] ? ' – ' + until(incidents.begin[i], incidents.end[i]) : '');
    const names = incidents.task.map(t => lower[t]), leads = incidents.column.map(column => column.toLowerCase());
    const columns = [
      { head: 'task', key: names, width: 'minmax(6rem, 1.2fr)', narrow: '1fr', name: true, cell: i => tasks.name[incidents.task[i]] },
      { head: 'column', key: leads, wide: true, width: 'minmax(5rem, 1fr)', cell: i => incidents.column[i] || '–' },
      number('alarms', incidents.count, { width: '5.4rem', cell: i => `${whole(incidents.count[i])} of ${whole(tasks.rows[incidents.task[i]])}` }),
      ...(rows.time ? [{ head: 'when', key: incidents.begin, wide: true, width: 'minmax(12.6rem, 1fr)', cell: spanned }] : []),
      chance(incidents),
      { head: 'worst row', second: true, width: 'minmax(6rem, 2.2fr)', cell: reason },
    ];
    new List('incidents', incidents.task.length, columns,
      words => words && (i => names[i].includes(words) || leads[i].includes(words)),
      i => openTask(incidents.task[i], incidents.rows[i], true));
  }
  const scores = { head: data.rows ? 'scores and threshold' : 'left-out scores and threshold', width: 'minmax(9rem, 2.4fr)', narrow: 'minmax(6rem, 1fr)', cell: strip };
  new List('tasks', T, [
    { head: 'task', key: lower, width: 'minmax(7rem, 1.2fr)', narrow: '1.2fr', name: true, cell: t => tasks.name[t] },
    number('trained on', tasks.trained, { wide: true, width: '5.4rem' }),
    { head: 'basis', key: tasks.basis, wide: true, width: '4.6rem', cell: t => tasks.basis[t] },
    ...(rows ? [number('rows', tasks.rows, { wide: true }), number('alarms', tasks.alarms, { narrow: '3.6rem' }), { ...chance(tasks), wide: true, cell: t => tasks.alarms[t] ? byChance(tasks.chance[t]) : '–' }]
      : [number('threshold', tasks.threshold, { width: '5.6rem', cell: t => digits(tasks.threshold[t]) })]),
    scores,
  ], words => { const hit = words && inTask(words); return hit && (t => hit[t]); }, t => openTask(t)).sort(rows ? 5 : 1);
  if (!rows) return;
  const texts = data.reasons.map(reasons => reasons.join('\n').toLowerCase());
  rowsList = new List('rows', rows.task.length, [
    { head: rows.id ? 'id' : 'row', key: rows.number, name: true, width: 'minmax(5rem, .5fr)', narrow: '5rem', cell: idOf },
    { head: 'task', key: rows.task.map(t => lower[t]), width: 'minmax(6rem, 1fr)', narrow: '1fr', name: true, cell: i => tasks.name[rows.task[i]] },
    ...(rows.time ? [{ head: 'time', key: rows.time, wide: true, width: '9rem', cell: i => moment(rows.time[i]) }] : []),
    number('p', rows.p, { up: true, cell: i => digits(rows.p[i]), hot: i => rows.alarm[i] }),
    number('score', rows.score, { up: true, wide: true, cell: i => digits(rows.score[i]) }),
    { head: 'reasons', second: true, width: 'minmax(12rem, 3fr)', cell: i => (data.reasons[rows.reason[i]] ?? []).join(' · ') },
    { head: 'answer', wide: true, width: '4.6rem', cell: i => WORDS[answered(i)] ?? '' },
  ], (words, only) => {
    if (!words) return only && (i => rows.alarm[i]);
    const task = inTask(words), told = texts.map(text => text.includes(words));
    return i => (!only || rows.alarm[i]) && (task[rows.task[i]] || told[rows.reason[i]] || idOf(i).toLowerCase() === words);
  }, i => openTask(rows.task[i], [i]));
  rowsList.sort(rows.time ? 3 : 2);
}
const until = (begin, end) => {  // the end of a span, without the date if it is the same
  const [a, b] = [moment(begin), moment(end)];
  return data.dated && a.slice(0, 10) === b.slice(0, 10) ? b.slice(11) : brief(end);
};
// A time without its year, where all have the same.
const brief = time => data.oneYear ? moment(time).slice(5) : moment(time);

async function show() {
  data = JSON.parse(await unpack('data'));
  moment = time => data.dated ? new Date(1000 * time).toISOString().slice(0, 16).replace('T', ' ') : digits(time);
  data.oneYear = data.dated && new Set(data.incidents.begin.concat(data.incidents.end).map(time => moment(time).slice(0, 4))).size === 1;
  (data.rows?.task ?? []).forEach((t, i) => (byTask[t] ??= []).push(i));
  dialog = make('dialog', { id: 'task', 'aria-labelledby': 'task-name' });
  document.body.append(dialog);
  dialog.addEventListener('click', event => { if (event.target === dialog) dialog.close(); });
  dialog.addEventListener('close', () => history.replaceState(null, '', location.pathname + location.search));
  if (data.rows) {
    recallAnswers();
    document.body.append(answersBar());
  }
  lists();
  if (data.rows) showAnswers();
  const asked = data.tasks.name.findIndex(name => location.hash === '#task=' + encodeURIComponent(name));
  if (asked >= 0) openTask(asked);
  root.dataset.ready = '';
}
if (root.classList.contains('live')) show();
