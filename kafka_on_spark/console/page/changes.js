// Changes: each shows first what would be committed, and is committed as it was shown.

import { post } from "./api.js";
import { el, fill, lines, name, say, table } from "./dom.js";
import { store } from "./store.js";

/** Whether the page may offer changes now. */
export function mayChange() {
  return store.allowsChanges && store.at === null;
}

/** Return a button for a change, or null where none may be made. `argumentsOf()` returns what is
 * changed. `typed`: a name that people type before they commit what can't be undone. */
export function changeButton(title, kind, argumentsOf, { typed = null, label = title } = {}) {
  if (!mayChange()) return null;
  return el("button", { type: "button", "aria-label": label, "data-key": `change ${label}`, onclick: () => ask(kind, argumentsOf(), typed) }, title);
}

/** Return a form for a change, or null; `fields` are inputs, each with an `aria-label`. */
export function changeForm(title, kind, fields, argumentsOf) {
  if (!mayChange()) return null;
  return el("form", { class: "tools", onsubmit: (event) => {
    event.preventDefault();
    ask(kind, argumentsOf());
  } }, fields, el("button", { type: "submit" }, title));
}

async function ask(kind, given, typed = null) {
  const title = el("h2", { id: "change" }, "A change");
  const body = el("div");
  const commit = el("button", { type: "button", class: "deed", disabled: true }, "Commit");
  const close = el("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const dialog = el("dialog", { "aria-labelledby": "change", onclose: () => dialog.remove() }, title, body, el("div", { class: "tools" }, commit, close));
  const word = el("input", { "aria-label": `Type ${typed}`, autocomplete: "off", oninput: () => { commit.disabled = word.value !== typed; } });
  let shown = null;
  document.body.append(dialog);
  dialog.showModal();
  fill(body, "Decides …");
  commit.addEventListener("click", () => send(shown));
  await send(null);

  async function send(rows) {
    commit.disabled = true;
    try {
      tell(await post("changes", { kind, arguments: given, shown: rows }));
    } catch (error) {
      if (rows === null) tell({ outcome: "undecided", sentence: error.message });
      else tell({ outcome: "unknown", sentence: `${error.message} (the console may be gone: look at the cluster before you try again)` });
    }
  }

  function tell(answer) {
    if (answer.outcome === "shown" || answer.outcome === "different") {
      shown = answer.rows;
      fill(title, name(`${answer.words[0].toUpperCase()}${answer.words.slice(1)}`));
      fill(body,
        answer.outcome === "different" ? el("p", { class: "trouble", role: "alert" }, "The cluster has changed since: this is what would be committed now.") : null,
        el("p", {}, shown.length ? "A dry run. Nothing is committed yet; these records would be:" : "Nothing would change."),
        shown.length ? table("Records", [["record"], ["cause", "why"], ["what it says", "why"]], shown.map(([record, cause, says]) => [record, name(cause), name(says)])) : null,
        typed !== null && shown.length ? el("p", {}, "This can't be undone. To go on, type ", name(typed), ": ", word) : null);
      commit.disabled = !shown.length || (typed !== null && word.value !== typed);
      return;
    }
    const said = {
      committed: "Committed.",
      refused: "Refused: nothing is committed.",
      undecided: "Nothing is committed: what it would do is not known.",
      unknown: "Nobody knows whether it is committed.",
    }[answer.outcome];
    fill(body, el("p", { role: "alert", class: answer.outcome === "committed" ? "good" : "trouble" }, el("strong", {}, said)),
      answer.sentence ? lines(answer.sentence) : null);
    say(said);
    commit.hidden = true;
    fill(close, "Close");
    close.focus();
  }
}
