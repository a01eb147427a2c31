// Makes elements. Text from outside goes through text nodes and attributes only; nothing here parses HTML.

const kSvg = 'http://www.w3.org/2000/svg';

// h('a', {class: 'x', href: '#/gpus', on: {click}, style: {width: '3px'}}, 'text', child, [children], null)
// Attributes that are null or false are left out; true gives an empty one.
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// The same for SVG.
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(kSvg, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === 'on') {
      for (const [name, listener] of Object.entries(value)) element.addEventListener(name, listener);
    } else if (key === 'style') {
      for (const [name, text] of Object.entries(value)) element.style.setProperty(name, text);
    } else {
      element.setAttribute(key, value === true ? '' : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// Replaces what is inside, where it differs: focus, selections and screen readers keep what is the same.
export function put(element, ...children) {
  const next = document.createDocumentFragment();
  append(next, children);
  const now = element.childNodes;
  if (now.length === next.childNodes.length && [...now].every((node, i) => node.isEqualNode(next.childNodes[i]))) return element;
  element.replaceChildren(next);
  return element;
}

// Sets the text only where it differs, so that screen readers and selections are left alone.
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Keeps one child per item of a list, in its order, so that focus and scroll position outlive an update.
// `make(item)` returns {element, update(item)}.
export function keyed(parent, items, key, make) {
  const old = parent.keyedRows || new Map();
  const rows = new Map();
  let at = parent.firstElementChild;
  for (const item of items) {
    const id = key(item);
    if (rows.has(id)) continue;
    const row = old.get(id) || make(item);
    rows.set(id, row);
    row.update(item);
    if (row.element === at) {
      at = at.nextElementSibling;
    } else {
      parent.insertBefore(row.element, at);
    }
  }
  for (const [id, row] of old) if (!rows.has(id)) row.element.remove();
  parent.keyedRows = rows;
}

// A table that is updated in place. `columns`: [{id, title, number, value(row) -> text|Node|[…], sort(row), hint, style}];
// `style`: 'wide' wraps text, 'short' cuts it.
// `options`: {caption, key(row), href(row), rowClass(row), empty}. Returns {element, update(rows)}. A click on a
// head sorts by that column, where it has `sort`; without one the order of the rows stays.
export function table(columns, options) {
  let sorted = null;
  let rows = [];
  const body = h('tbody');
  const heads = columns.map((column) => {
    const inside = column.sort
      ? h('button', {type: 'button', class: 'sort', on: {click: () => sortBy(column)}}, column.title)
      : column.title;
    return h('th', {scope: 'col', class: column.number ? 'n' : null, title: column.hint}, inside);
  });
  const element = h('div', {class: 'scroll', tabindex: '0', role: 'region', 'aria-label': options.caption},
    h('table', {}, h('caption', {class: 'hidden'}, options.caption), h('thead', {}, h('tr', {}, heads)), body));
  const none = h('p', {class: 'empty', hidden: true}, options.empty || '');
  const all = h('div', {class: 'table'}, element, none);

  function sortBy(column) {
    if (sorted && sorted.column === column) sorted = sorted.down ? {column, down: false} : null;
    else sorted = {column, down: true};
    heads.forEach((head, i) => {
      if (sorted && columns[i] === sorted.column) {
        head.setAttribute('aria-sort', sorted.down ? 'descending' : 'ascending');
      } else {
        head.removeAttribute('aria-sort');
      }
    });
    show();
  }

  function compare(a, b) {
    const x = sorted.column.sort(a), y = sorted.column.sort(b);
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return (x < y ? -1 : 1) * (sorted.down ? -1 : 1);
  }

  function make() {
    const cells = columns.map((column, i) =>
      h(i ? 'td' : 'th', {class: column.number ? 'n' : column.style, scope: i ? null : 'row'}));
    const line = h('tr', {}, cells);
    return {
      element: line,
      update(row) {
        line.className = options.rowClass ? options.rowClass(row) || '' : '';
        columns.forEach((column, i) => {
          const content = column.value(row);
          if (typeof content === 'string' || typeof content === 'number') {
            if (i === 0 && options.href && options.href(row)) {
              const href = options.href(row);
              const link = cells[i].firstElementChild;
              if (!link || link.tagName !== 'A') put(cells[i], h('a', {href}, content));
              else {
                if (link.getAttribute('href') !== href) link.setAttribute('href', href);
                setText(link, String(content));
              }
            } else {
              setText(cells[i], String(content));
            }
          } else if (!cells[i].contains(document.activeElement)) {
            put(cells[i], content);
          }
        });
      },
    };
  }

  function show() {
    const shown = sorted ? [...rows].sort(compare) : rows;
    keyed(body, shown, options.key, make);
    none.hidden = rows.length > 0 || !options.empty;
    element.hidden = rows.length === 0 && Boolean(options.empty);
  }

  return {element: all, update(next) { rows = next; show(); }};
}

// Gives a text to the clipboard. False: the browser does not allow it.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const area = h('textarea', {class: 'hidden', 'aria-hidden': 'true', readonly: true});
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand('copy');
    area.remove();
    return done;
  }
}

// Saves a text as a file.
export function save(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  const link = h('a', {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
