// What the page knows: the newest grid, kept by events, or the grid of a past moment.

import * as api from "./api.js";

const CONCERNS = ["partitions", "groups", "brokers", "configs"];
const listeners = [];

export const store = {
  live: null, // the newest grid
  past: null, // the grid of the moment that is shown; null: the newest is
  at: null, // that moment, a metadata offset
  trouble: null,
  away: null,
};

/** Return the grid that is shown. */
export function grid() {
  return store.at === null ? store.live : store.past;
}

/** Return whether the newest grid is kept by events. */
export function isFollowed() {
  return store.away === null && store.trouble === null;
}

/** Call `listener(kind, detail)` with each change. */
export function listen(listener) {
  listeners.push(listener);
}

function tell(kind, detail = null) {
  for (const each of listeners) each(kind, detail);
}

const AGAIN_MS = 2000;
let again = 0;
let wasFollowed = true;

/** Tell what is wrong. Where all is well again, what could not be loaded meanwhile is loaded anew. */
function tellTrouble() {
  tell("trouble");
  if (isFollowed() && !wasFollowed) {
    tell("concerns", CONCERNS);
    if (loading === null && (store.live?.offset ?? -1) < newest) load().catch(failed);
  }
  wasFollowed = isFollowed();
}

function gridOf(view) {
  const rows = view.rows.map((row) => rowOf(view.fields, row));
  return { ...view, rows, byName: new Map(rows.map((row) => [row.name, row])) };
}

function rowOf(fields, values) {
  const row = Object.fromEntries(fields.map((field, at) => [field, values[at]]));
  return { ...row, name: `${row.topic}-${row.partition}` };
}

let loading = null;
let isStale = false;
let newest = 0; // the newest metadata offset that was told

/** Load the newest grid; who asks while that is under way waits for one that begins afterwards. */
export async function load() {
  isStale = true;
  loading ??= (async () => {
    try {
      while (isStale || store.live.offset < newest) {
        isStale = false;
        store.live = gridOf(await api.get("grid"));
      }
    } finally {
      loading = null;
    }
    tell("live");
    if (store.at === null) tell("grid");
  })();
  return loading;
}

/** Show the cluster as of a metadata offset; null: as it is. */
export async function go(at) {
  if (at === store.at) return;
  const past = at === null ? null : gridOf(await api.get("grid", { at }));
  store.past = past;
  store.at = at;
  tell("moment");
  tell("grid");
}

/** Begin to follow. */
export function begin() {
  load().catch(failed);
  api.follow((kind, data) => {
    if (store.away !== null) {
      store.away = null;
      tellTrouble();
    }
    handlers[kind]?.(data);
  }, (sentence) => {
    if (store.away !== sentence) {
      store.away = sentence;
      tellTrouble();
    }
  });
}

const handlers = {
  hello(data) {
    store.trouble = data.trouble;
    const known = newest || (store.live?.offset ?? data.offset);
    if (known !== data.offset) tell("concerns", CONCERNS);
    tellTrouble();
    newest = data.offset;
    if (loading === null && store.live?.offset !== newest) load().catch(failed);
  },
  commit(data) {
    const live = store.live;
    newest = data.offset;
    if (loading !== null) {
      tell("concerns", data.concerns);
      return; // what is loaded is at least as new, or is loaded again
    }
    if (live !== null && data.offset <= live.offset) return;
    if (data.whole || data.before !== live?.offset) {
      load().catch(failed);
      tell("concerns", data.concerns);
      return;
    }
    const changed = data.rows.map((values) => rowOf(live.fields, values));
    for (const row of changed) Object.assign(live.byName.get(row.name), row);
    Object.assign(live, { offset: data.offset, timeMs: data.timeMs, counts: data.counts, brokers: data.brokers });
    tell("live");
    if (store.at === null) tell("rows", changed.map((row) => row.name));
    tell("concerns", data.concerns);
  },
  trouble(data) {
    store.trouble = data.sentence;
    tellTrouble();
  },
};

/** Say why the grid could not be loaded, and load it again soon: no event may come for hours. */
function failed(error) {
  store.away = error.message;
  tellTrouble();
  clearTimeout(again);
  again = setTimeout(() => {
    if (loading === null) load().then(() => loaded(error.message), failed);
  }, AGAIN_MS);
}

function loaded(failure) {
  if (store.away !== failure) return; // it is away for another reason by now, or is not
  store.away = null;
  tellTrouble();
}
