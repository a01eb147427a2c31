// GPUs: a table of all.
import {h, put} from './dom.js';
export default {id: 'gpus', title: 'GPUs', render({root}) { put(root, h('h2', {}, 'GPUs')); }};
