// A row of figures: label, number, and a line below.

import {h, put, setText, keyed} from './dom.js';
import * as format from './format.js';

// Returns {element, update(rows)}; a row is [label, value, unit, below]. A value that is a text is shown as it is.
export function figures() {
  const element = h('div', {class: 'tiles'});
  return {
    element,
    update(rows) {
      keyed(element, rows, ([label]) => label, ([label]) => {
        const number = h('div', {class: 'figure'});
        const under = h('div', {class: 'under'});
        return {
          element: h('div', {class: 'tile'}, h('div', {class: 'label'}, label), number, under),
          update([, value, unit, below]) {
            const [digits, after] = typeof value === 'string' ? [value, ''] : format.parts(value, unit);
            if (number.textContent !== digits + (after ? ' ' + after : '')) put(number, digits, after ? h('small', {}, ' ' + after) : null);
            setText(under, below || '');
            under.title = below || '';
          },
        };
      });
    },
  };
}
