// Changes: each shows first what would be committed, and is committed as it was shown.

import { post } from "./api.js";
import { el, fill, lines, name, say, shown as visible, table } from "./dom.js";
import { listen, store } from "./store.js";

let count = 0; // of dialogs: one may be told of while another is open

/** Whether the page may offer changes now. */
export function mayChange() {
  return store.allowsChanges && store.at === null;
}

/** Return a button for a change, or null where none may be made. `argumentsOf()` returns what is
 * changed. `typed`: a name that people type before they commit what can't be undone. Of two buttons
 * with one `key` the second has taken the place of the first. */
export function changeButton(title, kind, argumentsOf, { typed = null, label = title, key = label } = {}) {
  if (!mayChange()) return null;
  return el("button", { type: "button", "aria-label": label, "data-key": `change ${key}`, onclick: () => ask(kind, argumentsOf(), typed) }, title);
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
  if (!mayChange()) return; // the page has gone to the past, and the button goes in a moment
  const opener = document.activeElement;
  count += 1;
  const title = el("h2", { id: `change-${count}` }, "A change");
  const body = el("div");
  const commit = el("button", { type: "button", class: "deed", disabled: true }, "Commit");
  const close = el("button", { type: "button", onclick: () => dialog.close() }, "Cancel");
  const dialog = el("dialog", { "aria-labelledby": title.id, onclose: closed }, title, body, el("div", { class: "tools" }, commit, close));
  const word = el("input", { "aria-label": `Type ${typed}`, autocomplete: "off", oninput: offer });
  let shown = null;
  let isSent = false;
  let forget = null;
  open();
  fill(body, "Decides …");
  commit.addEventListener("click", () => send(shown));
  await send(null);

  function open() {
    document.body.append(dialog);
    dialog.showModal();
    forget = listen(leave);
  }

  /** Offer nothing any more where the page has gone to the past. */
  function leave(kind) {
    if (kind === "moment" && !mayChange() && !isSent) dialog.close();
  }

  /** Let people commit what is shown. */
  function offer() {
    commit.disabled = !mayChange() || !shown.length || !isTyped();
  }

  /** Return whether the name was typed; characters that can't be seen may be typed as they are shown. */
  function isTyped() {
    return typed === null || word.value === typed || word.value === visible(typed);
  }

  /** Have people stay where they were: what they clicked may have been drawn anew. */
  function closed() {
    if (dialog.open) return; // it was opened again before this was told
    forget();
    dialog.remove();
    if (opener.isConnected && opener !== document.body) return;
    const fresh = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === opener.dataset.key);
    (fresh ?? document.getElementById("main")).focus({ preventScroll: true });
  }

  async function send(rows) {
    commit.disabled = true;
    isSent = rows !== null;
    if (isSent) fill(close, "Close"); // it cancels nothing any more
    try {
      tell(await post("changes", { kind, arguments: given, shown: rows }));
    } catch (error) {
      if (rows === null) tell({ outcome: "undecided", sentence: error.message });
      else tell({ outcome: "unknown", sentence: `${error.message}: look at the cluster before you try again` });
    }
    if (rows !== null && !dialog.open) { // what came of it is told to who has closed it, too
      open();
    }
  }

  function tell(answer) {
    if (answer.outcome === "shown" || answer.outcome === "different") {
      shown = answer.rows;
      isSent = false;
      fill(close, "Cancel");
      fill(title, name(`${answer.words[0].toUpperCase()}${answer.words.slice(1)}`));
      fill(body,
        answer.outcome === "different" ? el("p", { class: "trouble", role: "alert" }, "The cluster has changed since: this is what would be committed now.") : null,
        el("p", {}, shown.length ? "A dry run. Nothing is committed yet; these records would be:" : "Nothing would change."),
        shown.length ? table("Records", [["record"], ["cause", "why"], ["what it says", "why"]], shown.map(([record, cause, says]) => [record, name(cause), name(says)])) : null,
        typed !== null && shown.length ? el("p", {}, "This can't be undone. To go on, type ", name(typed), ": ", word) : null);
      offer();
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
