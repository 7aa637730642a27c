// Shows the results that are in the document. Text of programs under test becomes text nodes and nothing else: no text is
// ever parsed as HTML here.
"use strict";
(() => {
const results = JSON.parse(document.getElementById("data").textContent);

// "0:1 4:0" is what two locations held: pairs of numbers.
for (const state of Array.isArray(results) ? results.flatMap((result) => result.states?.list || []) : [])
  state.held = state.held ? state.held.split(" ").map((pair) => pair.split(":").map(Number)) : [];

// ---- Elements and text

// h("td", {class: "number"}, "text", element, ...): strings become text nodes, null and false nothing.
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

const LONG = 600;
// Characters that are not seen, or that change what is seen: controls, marks of direction, separators, lone surrogates.
const UNSEEN = new RegExp(
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u180e\\u200b-\\u200f" +
  "\\u2028-\\u202e\\u2060-\\u206f\\u2800\\u3164\\ufe00-\\ufe0f\\ufeff\\uffa0\\ufff0-\\ufffb\\ud800-\\udfff" +
  "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e0fff}]", "u");

function escaped(character) {
  const known = {"\n": "\\n", "\t": "\\t", "\r": "\\r"};
  return known[character] ?? "\\u" + character.codePointAt(0).toString(16).padStart(4, "0");
}

// Text of unknown origin: what is not seen is spelled out, and what is long is cut, with a button that shows the rest.
function show(text, most = LONG) {
  const span = h("bdi", {class: "text"});
  fill(span, text, most, UNSEEN);
  return span;
}

// The same for what must not pass for something else: a name, an operation. Ends of lines are spelled out, too.
const UNSEEN_IN_NAMES = new RegExp(UNSEEN.source.replace("[", "[\\n\\t"), "u");
function named(text, most = LONG) {
  const span = h("bdi", {class: "text"});
  fill(span, text, most, UNSEEN_IN_NAMES);
  return span;
}

function fill(span, text, most, unseen) {
  const shown = text.length > most ? text.slice(0, most) : text;
  let plain = "";
  for (const character of shown) {
    if (!unseen.test(character)) {
      plain += character;
      continue;
    }
    if (plain) span.append(plain);
    plain = "";
    span.append(h("span", {class: "escape"}, escaped(character)));
  }
  span.append(plain);
  if (shown.length === text.length) return;
  const more = h("button", {type: "button", class: "plain small", click: () => {
    span.replaceChildren();
    fill(span, text, text.length, unseen);
  }}, `${(text.length - most).toLocaleString("en")} more characters`);
  span.append(" … ", more);
}

const code = (text, most) => h("span", {class: "code"}, named(text, most));
const count = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;
const capital = (text) => text.slice(0, 1).toUpperCase() + text.slice(1);

function section(title, ...children) {
  const id = "s" + section.count++;
  return h("section", {"aria-labelledby": id}, h("h2", {id}, typeof title === "string" ? show(title, 200) : title), ...children);
}
section.count = 0;

function table(caption, heads, rows, attributes) {
  const head = heads.map((text) => h("th", {scope: "col", class: typeof text === "string" ? null : "number"},
                                     typeof text === "string" ? show(text, 100) : text[0]));
  return h("div", {class: "wide"}, h("table", attributes || {},
    caption ? h("caption", {}, caption) : null, h("thead", {}, h("tr", {}, head)),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell, i) =>
      h("td", {class: typeof heads[i] === "string" ? null : "number"}, cell)))))));
}

// A long list: the first ones, and a button for the rest.
function listed(items, most, tag, attributes) {
  const list = h(tag, attributes, items.slice(0, most).map((item) => item()));
  if (items.length <= most) return [list];
  const more = h("button", {type: "button", class: "small", click: () => {
    const rest = items.slice(most).map((item) => item());
    list.append(...rest);
    more.remove();
    rest[0].setAttribute("tabindex", -1);
    rest[0].focus({preventScroll: true});
  }}, `show ${(items.length - most).toLocaleString("en")} more`);
  return [list, more];
}

function pasteable(text) {
  const said = h("span", {"aria-live": "polite"}, "copy"), shown = h("code", {}, named(text, 4000));
  // Where the clipboard is not allowed, the text is selected.
  const select = () => {
    getSelection().selectAllChildren(shown);
    said.textContent = "selected";
  };
  const button = h("button", {type: "button", class: "copy small", click: () => {
    if (!navigator.clipboard) select();
    else navigator.clipboard.writeText(text).then(() => { said.textContent = "copied"; }, select);
  }}, said);
  return h("div", {class: "paste"}, shown, button);
}

// ---- The head of a result

const MARKS = {violation: "fails", verified: "yes", bounded: "partly"};

function countsText(result) {
  const {counts} = result;
  const parts = [];
  if (counts.executions) parts.push(count(counts.executions, "execution", "executions"));
  if (counts.recoveries) parts.push(count(counts.recoveries, "recovery", "recoveries"));
  if (counts.violations) parts.push(`${counts.violations.toLocaleString("en")} failed`);
  if (counts.operations) parts.push(count(counts.operations, "operation", "operations"));
  if (counts.events) parts.push(count(counts.events, "event", "events"));
  return parts.join(", ");
}

function sentenceOf(result) {
  if (result.violation) return capital(result.violation.sentence);
  if (result.verdict === "violation") return capital(result.unexplained || "something failed");
  if (result.verdict === "verified") return "Everything was tried, and nothing failed";
  return "Nothing failed, but not everything was tried";
}

// As a shell takes them.
function quoted(word) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
function commandText(command, result) {
  return ["crashcut", command, ...(result.separator ? ["--"] : []), ...result.program.map(quoted)].join(" ");
}

function header(result) {
  const facts = [["model", show(result.model.text)], ["searched", countsText(result)]];
  if (result.scope) facts.push(["scope", show(result.scope.trim())]);
  if (result.bound_hit)
    facts.push(["ended by", `${result.bound_hit.replaceAll("_", " ")}; about ${(100 * result.explored_fraction).toPrecision(2)} % was explored`]);
  if (result.bound_hit && result.coverage) facts.push(["covered", show(result.coverage)]);
  facts.push(["seed", String(result.seed)]);
  if (result.replay) facts.push(["replay", pasteable(result.replay)]);
  if (result.resume) facts.push(["go on", pasteable(result.resume)]);
  return h("header", {},
    h("p", {class: `verdict ${result.verdict}`}, h("span", {class: `mark ${MARKS[result.verdict]}`}), result.verdict,
      result.violation ? h("span", {class: "soft"}, show(result.violation.kind, 60)) : null),
    h("h1", {}, show(sentenceOf(result), 400)),
    h("p", {class: "command"}, code(commandText(result.command, result))),
    h("dl", {class: "facts"}, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])));
}

// What makes the violation go away, as far as it was looked for.
function mends(violation) {
  const sentences = [...violation.mends.map(mend => mend.text), violation.no_mend].filter(Boolean);
  return sentences.length ? section("What would mend it", h("ul", {}, sentences.map(text => h("li", {}, show(text))))) : null;
}

// ---- A crash: operations downwards, and the moment at which the power fails

const WORDS = {y: "yes", p: "partly", n: "no"};
const REPORTED = {yes: "y", partly: "p", no: "n"};

// A state says what the recovery made certain. A sync that has run is done, though no recovery asked; what it waited for
// has persisted then, and which operations these are the page does not know. `doneBy` is the last such sync.
function markOf(operation, fate, isLater, doneBy) {
  if (fate === "-" || fate === undefined || isLater) return null;
  if (operation.sync) return ["done", "done"];
  return fate !== "y" && operation.number < doneBy ? ["open", "not known"] : [WORDS[fate], WORDS[fate]];
}

// The number of the last sync, up to an index, that the state does not have for certain; 0 if there is none.
function lastOpenSync(operations, fates, at) {
  const found = operations.findLast((o, i) => i <= at && o.sync && !o.durable && fates[o.number] !== "y");
  return found ? found.number : 0;
}

// The latest moment at which what is not certain can all be lost: before the first sync that is not certain.
function tellingMoment(operations, fates, {earliest, latest}) {
  const sync = operations.find((o) => o.number > earliest && o.sync && !o.durable && fates[o.number] !== "y");
  return Math.min(latest, sync ? sync.number - 1 : Infinity);
}

function mark(kind, word) {
  return h("span", {class: `mark ${kind}`}, word);
}

// "y3n2-1" is y y y n n -: one letter an operation, from operation 0.
function spread(runs) {
  const fates = [];
  for (const [, letter, times] of runs.matchAll(/([ypn-])(\d+)/g))
    for (let i = Number(times); i > 0; --i) fates.push(letter);
  return fates;
}

// "sh: write(..)" is of the process sh; "thread 2: .." of a thread. A column for each if they are few.
function lanesOf(operations) {
  const of = (text) => (text.match(/^([A-Za-z0-9_.+-]{1,30}|thread \d+): /) || [])[1];
  const lanes = [...new Set(operations.map((o) => of(o.text)).filter(Boolean))];
  if (lanes.length < 2 || lanes.length > 4) return {lanes: [], laneOf: () => -1, textOf: (o) => o.text};
  const laneOf = (o) => lanes.indexOf(of(o.text));
  return {lanes, laneOf, textOf: (o) => (laneOf(o) < 0 ? o.text : o.text.slice(of(o.text).length + 2))};
}

// Where in the program's source something was called, as far as that is known.
function placeOf({function: name, file, line}) {
  const text = [name, file ? `${file}:${line}` : ""].filter(Boolean).join(" ");
  return text ? h("span", {class: "soft small"}, " ", named(text, 200)) : null;
}

// Until the pointer is lifted from the line, `move` hears of its height. At the edges of the window the page scrolls.
function dragging(line, pointer, move) {
  line.setPointerCapture(pointer);
  const drag = (moved) => {
    const edge = 40;
    if (moved.clientY < edge) scrollBy(0, moved.clientY - edge);
    if (moved.clientY > innerHeight - edge) scrollBy(0, moved.clientY - innerHeight + edge);
    move(moved.clientY);
  };
  const end = () => {
    line.removeEventListener("pointermove", drag);
    for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) line.removeEventListener(name, end);
  };
  line.addEventListener("pointermove", drag);
  for (const name of ["pointerup", "pointercancel", "lostpointercapture"]) line.addEventListener(name, end);
}

// The operations of one crash with the line that can be dragged. `onChange` hears of each new moment.
class Timeline {
  constructor(operations, names, canMove, onChange) {
    this.operations = operations;
    this.names = names;
    this.canMove = canMove;
    this.onChange = onChange;
    // The operations before it made the starting state.
    const inDoubt = operations.findIndex((o) => o.persisted !== null && !o.durable);
    const afterDurable = operations.findLastIndex((o) => o.durable) + 1;
    this.first = Math.max(inDoubt < 0 ? afterDurable : Math.min(afterDurable, inDoubt), 1);
    this.at = this.first - 1;  // the index of the last operation before the crash
    this.fates = [];
    this.rows = [];
    Object.assign(this, lanesOf(operations.slice(this.first)));
    this.body = h("tbody");
    this.label = h("span", {"aria-hidden": "true"}, canMove ? "the power fails ⇅" : "the power fails");
    this.line = h("div", {class: canMove ? "moment" : "moment fixed"}, this.label);
    if (canMove) this.makeMovable();
    const heads = [h("th", {class: "fate", scope: "col"}, names.medium === "the disk" ? "on disk" : "kept"),
                   h("th", {class: "number", scope: "col"}, "#")];
    if (this.lanes.length === 0) heads.push(h("th", {scope: "col"}, "operation"));
    for (const lane of this.lanes) heads.push(h("th", {scope: "col"}, show(lane)));
    this.element = h("div", {class: "operations"},
      h("table", {}, h("caption", {class: "hidden"}, show(`Operations of ${names.program}, in order`, 200)),
        h("thead", {}, h("tr", {}, heads)), this.body), this.line);
    new ResizeObserver(() => this.place()).observe(this.element);
  }

  makeMovable() {
    for (const [name, value] of Object.entries({role: "slider", tabindex: 0, "aria-orientation": "vertical",
      "aria-label": "When the power fails", "aria-valuemin": this.first - 1,
      "aria-valuemax": this.operations.length - 1})) this.line.setAttribute(name, value);
    this.line.addEventListener("keydown", (event) => this.onKey(event));
    this.line.addEventListener("pointerdown", (event) => this.onDown(event));
  }

  onKey(event) {
    const last = this.operations.length - 1;
    const steps = {ArrowUp: this.at - 1, ArrowLeft: this.at - 1, ArrowDown: this.at + 1, ArrowRight: this.at + 1,
      PageUp: this.at - 10, PageDown: this.at + 10, Home: this.first - 1, End: last};
    if (!(event.key in steps)) return;
    event.preventDefault();
    this.move(steps[event.key]);
    this.line.scrollIntoView({block: "nearest"});
  }

  onDown(event) {
    if (event.button > 0) return;
    event.preventDefault();
    this.line.focus({preventScroll: true});
    dragging(this.line, event.pointerId, (y) => this.move(this.nearest(y)));
  }

  // The operation whose lower edge is nearest.
  nearest(y) {
    let best = this.at, distance = Infinity;
    for (const {row, index} of this.rows) {
      const off = Math.abs(row.getBoundingClientRect().bottom - y);
      if (off < distance) [best, distance] = [index, off];
    }
    return best;
  }

  move(index) {
    const to = Math.min(Math.max(index, this.first - 1), this.operations.length - 1);
    if (to === this.at) return;
    this.at = to;
    this.onChange();
  }

  // Which rows are drawn: all, or, of very many, the ends and those around the crash.
  drawn() {
    const total = this.operations.length, all = [];
    const near = (i, middle) => Math.abs(i - middle) <= 25;
    for (let i = this.first; i < total; ++i) {
      if (total <= 400 || i < this.first + 10 || i >= total - 5 || near(i, this.at)) all.push(i);
    }
    return all;
  }

  draw() {
    const {operations} = this;
    this.rows = [];
    this.body.replaceChildren();
    const columns = Math.max(this.lanes.length, 1);
    const wide = (kind, word, number, text) => h("tr", {class: kind}, h("td", {}, word), h("td", {class: "number"}, number),
      h("td", {colspan: columns}, text));
    if (this.first > 0) {
      const row = wide("start", mark("start", "start"), this.first > 2 ? `1–${operations[this.first - 1].number}` : "",
        "the starting state");
      this.body.append(row);
      this.rows.push({row, index: this.first - 1});
    }
    let before = this.first - 1;
    for (const index of this.drawn()) {
      const missing = operations[index].number - operations[before].number - 1;
      if (index > before + 1) this.body.append(wide("gap", "", "", h("button", {type: "button", class: "plain",
        click: () => this.move(Math.floor((before + index) / 2))}, `${missing.toLocaleString("en")} more operations`)));
      else if (missing > 0) this.body.append(wide("gap", "", "", `${missing.toLocaleString("en")} more operations, not on this page`));
      before = index;
      this.drawRow(index);
    }
    this.update();
  }

  drawRow(index) {
    const operation = this.operations[index];
    const fate = h("td"), cells = [];
    const lane = this.laneOf(operation);
    const content = [code(this.textOf(operation), 300), placeOf(operation)], parts = h("ul");
    if (this.lanes.length === 0 || lane < 0) {
      cells.push(h("td", {colspan: Math.max(this.lanes.length, 1)}, content, parts));
    } else {
      this.lanes.forEach((_, i) => cells.push(i === lane ? h("td", {}, content, parts) : h("td")));
    }
    const row = h("tr", {}, fate, h("td", {class: "number"}, String(operation.number)), cells);
    this.body.append(row);
    this.rows.push({row, index, fate, parts});
  }

  // Draws the marks of the rows anew, and the line.
  update() {
    const doneBy = lastOpenSync(this.operations, this.fates, this.at);
    for (const {row, index, fate, parts} of this.rows) {
      row.classList.toggle("above", index === this.at);
      if (!fate) continue;
      const operation = this.operations[index], letter = this.fates[operation.number];
      const isLater = index > this.at;
      const said = markOf(operation, letter, isLater, doneBy);
      fate.replaceChildren(...(said ? [mark(...said)] : []));
      row.classList.toggle("later", isLater);
      row.classList.toggle("lost", said !== null && (said[0] === "no" || said[0] === "partly"));
      row.classList.toggle("below", index === this.at + 1);
      const tells = said !== null && said[0] === "partly" && this.tellsEvents ? operation.events : [];
      parts.replaceChildren(...tells.map((e) => h("li", {}, mark(e.persisted ? "yes" : "no", e.persisted ? "yes" : "no"),
        code(e.text, 200))));
    }
    this.place();
  }

  place() {
    const found = this.rows.find(({index}) => index === this.at);
    if (!found) return;
    const box = found.row.getBoundingClientRect(), own = this.element.getBoundingClientRect();
    this.line.style.top = `${box.bottom - own.top}px`;
  }

  // Shows a moment with the fates of the operations by their numbers. `tellsEvents`: they are those of the crash at
  // hand, whose single events are known.
  set(fates, tellsEvents) {
    this.fates = fates;
    this.tellsEvents = tellsEvents;
    if (this.canMove) {
      this.line.setAttribute("aria-valuenow", this.at);
      this.line.setAttribute("aria-valuetext", `after operation ${this.operations[this.at].number}, ${this.operations[this.at].text.slice(0, 100)}`);
    }
    if (this.operations.length > 400 || this.rows.length === 0) this.draw();
    else this.update();
  }
}

const reportedFates = (operations) => {
  const fates = [];
  for (const o of operations) fates[o.number] = REPORTED[o.persisted] || "-";
  return fates;
};

// The states of a result that a crash at one moment can leave, beside the operations.
class StatePanel {
  constructor(result, names, lastOperation) {
    this.result = result;
    this.lastOperation = lastOperation;
    this.names = names;
    this.states = result.states.list;
    this.locations = result.states.locations;
    this.title = h("h2", {}, "At this moment");
    this.sentence = h("p");
    this.list = h("div");
    this.holds = h("div");
    this.live = h("div", {class: "hidden", "aria-live": "polite", role: "status"});
    const left = result.states.left_out;
    this.element = h("aside", {class: "panel", "aria-label": "What a crash at this moment can leave"}, this.title, this.sentence,
      this.list, this.holds, left > 0 ? h("p", {class: "small soft"}, `${count(left, "more explored state is", "more explored states are")} not on this page.`) : null,
      this.live);
  }

  outcomeOf(state) {
    const outcome = state.outcome === null ? null : this.result.outcomes[state.outcome];
    return state.text || (outcome && outcome.output) || "(no output)";
  }

  heldText(state) {
    const texts = state.held.slice(0, 4).map(([l, v]) => `${this.locations[l].text}: ${this.locations[l].values[v]}`);
    const more = state.held.length - texts.length + state.held_left_out;
    return texts.join("; ") + (more > 0 ? `; and ${more} more` : "");
  }

  stateButton(state, selected, onSelect) {
    const subjects = this.result.subjects;
    return h("li", {}, h("button", {type: "button", "aria-pressed": String(state === selected), click: () => onSelect(state)},
      mark(state.violation ? "fails" : "fine", state.violation ? "fails" : "fine"),
      h("span", {}, subjects.length > 1 ? h("span", {class: "soft"}, show(subjects[state.subject], 60), ": ") : null,
        named(this.outcomeOf(state), 160),
        state.crashes > 1 ? h("span", {class: "soft"}, `, after ${state.crashes} crashes`) : null,
        state.example ? h("span", {class: "hand"}, "the crash at hand") : null),
      h("span", {class: "held"}, state.held.length ? named(this.heldText(state), 220) : null, h("span", {class: "when"}, this.whenText(state)))));
  }

  whenText(state) {
    const last = this.lastOperation;
    if (state.earliest === state.latest) return `by a crash at operation ${state.earliest}`;
    return state.latest >= last ? `by a crash from operation ${state.earliest} on` : `by a crash at operations ${state.earliest} to ${state.latest}`;
  }

  // What each location can hold, over the states that are possible.
  drawHolds(possible, selected) {
    const seen = new Map();
    for (const state of possible) {
      for (const [l, v] of state.held) {
        if (!seen.has(l)) seen.set(l, new Map());
        const values = seen.get(l), entry = values.get(v) || {states: 0, failing: 0};
        entry.states += 1;
        entry.failing += state.violation;
        values.set(v, entry);
      }
    }
    const chosen = new Map(selected ? selected.held : []);
    const rows = [...seen].map(([l, values]) => () => h("tr", {}, h("td", {}, named(this.locations[l].text, 100)),
      h("td", {}, [...values].sort((a, b) => a[0] - b[0]).map(([v, {states, failing}]) =>
        h("span", {class: chosen.get(l) === v ? "value chosen" : "value"}, named(this.locations[l].values[v], 100),
          h("span", {class: "soft small"}, ` in ${states}`, failing ? `, ${failing} fail${failing === 1 ? "s" : ""}` : ""))))));
    this.holds.replaceChildren();
    if (rows.length === 0) return;
    const [body, more] = listed(rows, 30, "tbody", {});
    this.holds.append(h("h3", {}, show(`What ${this.names.medium} could hold`, 200)), h("table", {class: "holds"},
      h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "where"), h("th", {scope: "col"}, "what, and in how many states"))), body), more || "");
  }

  draw(moment, possible, selected, onSelect) {
    const failing = possible.filter((state) => state.violation).length;
    this.sentence.replaceChildren(`A crash ${moment} can leave ${count(possible.length, "state", "states")} of the ` +
      `${this.states.length.toLocaleString("en")} explored; ${failing === 0 ? "none" : failing.toLocaleString("en")} of them fail${failing === 1 ? "s" : ""}.`);
    const ordered = [...possible].sort((a, b) => b.example - a.example || b.violation - a.violation);
    this.list.replaceChildren(...listed(ordered.map((state) => () => this.stateButton(state, selected, onSelect)), 40, "ul", {class: "states"}));
    this.drawHolds(possible, selected);
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.live.textContent = this.sentence.textContent; }, 250);
  }
}

// The first crash with all states that were kept of the search.
class CrashView {
  // `crash` is the one that the violation tells of; null where nothing failed.
  constructor(result, operations, crash, names) {
    const hasStates = result.states !== null && result.states.list.length > 0;
    this.operations = operations;
    this.names = names;
    this.own = reportedFates(operations);
    this.timeline = new Timeline(operations, names, hasStates, () => this.update());
    this.panel = hasStates ? new StatePanel(result, names, operations.at(-1).number) : null;
    this.selected = this.panel ? this.panel.states.find((state) => state.example) || null : null;
    this.listeners = [];
    // As late as can be: then most of what was lost is seen.
    const latest = crash ? tellingMoment(operations, this.own, crash) : Infinity;
    this.timeline.at = Math.max(operations.findLastIndex((o) => o.number <= latest), this.timeline.first - 1);
    this.element = h("div", {class: this.panel ? "timeline" : "timeline alone"}, this.timeline.element, this.panel ? this.panel.element : null);
  }

  select(state) {
    this.selected = state;
    // The line goes to a moment at which this state is possible.
    const numbers = this.operations.map((o) => o.number);
    const number = numbers[this.timeline.at];
    if (number < state.earliest) this.timeline.at = Math.max(numbers.findIndex((n) => n >= state.earliest), this.timeline.first - 1);
    if (number > state.latest) this.timeline.at = Math.max(numbers.findLastIndex((n) => n <= state.latest), this.timeline.first - 1);
    this.update();
    this.panel.list.querySelector('[aria-pressed="true"]')?.focus({preventScroll: true});
  }

  update() {
    const operation = this.operations[this.timeline.at];
    if (!this.panel) {
      this.timeline.set(this.own, true);
      return;
    }
    const possible = this.panel.states.filter((state) => state.earliest <= operation.number && operation.number <= state.latest);
    if (!possible.includes(this.selected))
      this.selected = possible.find((s) => s.example) || possible.find((s) => s.violation) || possible[0] || null;
    const isOwn = this.selected !== null && this.selected.example;
    this.timeline.set(isOwn ? this.own : this.selected ? spread(this.selected.kept) : [], isOwn);
    const moment = this.timeline.at < this.timeline.first ? "before the first of these operations" : `at operation ${operation.number}`;
    this.panel.draw(moment, possible, this.selected, (state) => this.select(state));
    for (const listener of this.listeners) listener(this);
  }

  // The mark of an operation now, and whether it has run.
  fateOf(operation) {
    const {fates, at} = this.timeline;
    const isLater = operation.number > this.operations[at].number;
    return {said: markOf(operation, fates[operation.number], isLater, lastOpenSync(this.operations, fates, at)), isLater};
  }
}

function choicesList(choices) {
  return h("ul", {class: "choices"}, choices.map((choice) => {
    const others = [...new Set(choice.candidates.filter((_, i) => i !== choice.taken))];
    const more = choice.candidates_left_out;
    return h("li", {}, named(choice.location, 200), ": ", h("strong", {}, named(choice.candidates[choice.taken] ?? "?", 200)),
      h("span", {class: "soft"}, ", could have been ", others.slice(0, 8).map((text, i) => [i ? ", " : "", named(text, 120)]).flat(),
        others.length - 8 + more > 0 ? ` and ${Math.max(others.length - 8, 0) + more} more` : ""));
  }));
}

function recoverySection(crash, names, isAgain) {
  const title = `What ${names.recovery}${isAgain ? ", run again," : ""} then did and saw`;
  if (crash.calls.length === 0) return section(title, h("p", {class: "soft"}, "Nothing that a crash could change."));
  const items = crash.calls.map((call) => () => h("li", {}, call.text ? [code(call.text, 300), placeOf(call)] : null,
    call.choices.length ? choicesList(call.choices) : null));
  return section(title, ...listed(items, 40, "ol", {class: "calls"}),
    crash.calls_left_out ? h("p", {class: "soft"}, `${count(crash.calls_left_out, "more call is", "more calls are")} not on this page.`) : null);
}

// ---- Memory by cache line

function memoryLines(operations) {
  const lines = new Map();
  for (const operation of operations) {
    for (const event of operation.events) {
      const found = event.kind.includes("store") && event.text.match(/ to (.+?)\+0x([0-9a-f]+)/);
      if (!found) continue;
      const line = Math.floor(parseInt(found[2], 16) / 64) * 64;
      const name = `${found[1]}+0x${line.toString(16)}`;
      if (!lines.has(name)) lines.set(name, []);
      lines.get(name).push({operation, event});
    }
  }
  return [...lines];
}

function memorySection(view) {
  const lines = memoryLines(view.operations);
  if (lines.length === 0) return null;
  const body = h("div", {class: "memory"});
  const draw = () => {
    body.replaceChildren(...lines.slice(0, 200).map(([name, stores]) => h("div", {}, h("div", {}, code(name, 80),
      h("div", {class: "soft small"}, count(stores.length, "store", "stores"))),
      h("ul", {}, stores.slice(0, 60).map(({operation, event}) => {
        const {said, isLater} = view.fateOf(operation);
        return h("li", {class: isLater ? "later" : null}, h("span", {class: "soft small"}, `#${operation.number}`),
          said ? mark(...said) : null, code(event.text, 160));
      }), stores.length > 60 ? h("li", {class: "soft"}, `${stores.length - 60} more`) : null))));
    if (lines.length > 200) body.append(h("p", {class: "soft"}, `${lines.length - 200} more cache lines`));
  };
  view.listeners.push(draw);
  draw();
  return section("Memory by cache line", h("p", {class: "soft"}, "Stores to one line persist in their order, those to different lines in any, unless flushes and fences say more."), body);
}

// ---- Files

const bytesOf = (version) => (version.hex.match(/../g) || []).map((pair) => parseInt(pair, 16));

// Lines that are the same, old and new, by their longest common subsequence.
function diffLines(before, after) {
  const table = Array.from({length: before.length + 1}, () => new Uint16Array(after.length + 1));
  for (let i = before.length - 1; i >= 0; --i) {
    for (let j = after.length - 1; j >= 0; --j)
      table[i][j] = before[i] === after[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  }
  const lines = [];
  for (let i = 0, j = 0; i < before.length || j < after.length;) {
    if (i < before.length && j < after.length && before[i] === after[j]) lines.push(["same", before[i++], j++]);
    else if (j >= after.length || (i < before.length && table[i + 1][j] >= table[i][j + 1])) lines.push(["old", before[i++]]);
    else lines.push(["new", after[j++]]);
  }
  return lines;
}

function textDiff(from, to) {
  const lines = (text) => (text.endsWith("\n") ? text.slice(0, -1) : text).split("\n");
  const before = lines(from.text), after = lines(to.text);
  if (before.length > 500 || after.length > 500) return h("pre", {}, show(to.text, 4000));
  return h("pre", {class: "diff"}, diffLines(before, after).map(([kind, line]) => h("span", {class: kind}, show(line, 300))));
}

function hexDump(bytes, before, expected) {
  const kind = (i) => {
    if (bytes[i] === 0 && expected[i] !== 0) return "nul";
    if (bytes[i] !== expected[i] && bytes[i] === before[i]) return "old";
    return bytes[i] !== before[i] && bytes[i] === expected[i] ? "changed" : null;
  };
  const pre = h("pre", {class: "hex", tabindex: 0, role: "group", "aria-label": "Bytes"});
  for (let row = 0; row < bytes.length; row += 8) {
    pre.append(row.toString(16).padStart(4, "0") + "  ");
    for (let i = row; i < row + 8; ++i)
      pre.append(i < bytes.length ? h("b", {class: kind(i)}, bytes[i].toString(16).padStart(2, "0")) : "  ", " ");
    pre.append(" ");
    for (let i = row; i < Math.min(row + 8, bytes.length); ++i)
      pre.append(h("b", {class: kind(i)}, bytes[i] > 32 && bytes[i] < 127 ? String.fromCharCode(bytes[i]) : "·"));
    pre.append("\n");
  }
  return pre;
}

function versionText(version) {
  if (version.type === "missing") return "there is no such file";
  if (version.type !== "file") return `a ${version.type}`;
  return count(version.size, "byte", "bytes") + (version.hex.length / 2 < version.size ? ", the first are shown" : "");
}

function fileView(file) {
  const {before, expected, after} = file;
  const isText = [before, expected, after].every((v) => v.type === "missing" || typeof v.text === "string");
  const content = (version, from) => {
    if (version.type !== "file" || version.size === 0) return h("p", {class: "soft"}, version.type === "file" ? "empty" : versionText(version));
    if (isText) return from && from.type === "file" ? textDiff(from, version) : h("pre", {}, show(version.text, 4000));
    return hexDump(bytesOf(version), bytesOf(before), bytesOf(expected));
  };
  const column = (title, version, from) => h("div", {}, h("h4", {}, `${title}: ${versionText(version)}`), content(version, from));
  return [h("h3", {}, named(file.path, 200)), h("div", {class: "three"}, column("before", before),
    column("expected", expected, before), column("after the crash", after, expected)),
    isText ? null : h("p", {class: "small soft"}, "Bytes: ", h("span", {class: "hex"}, h("b", {class: "nul"}, "00"), " NUL in place of contents, ",
      h("b", {class: "old"}, "6f"), " old, ", h("b", {class: "changed"}, "6e"), " new"))];
}

function filesSection(violation) {
  const files = violation.files || [];
  return files.length ? section("Files before, expected, and after the crash", files.map(fileView)) : null;
}

// ---- Schedules

// The calls of a stack, innermost first.
function stackList(stack) {
  return h("ol", {class: "stack"}, stack.map((line) => h("li", {}, code(line.function || "?", 200),
    line.file ? h("span", {class: "soft small"}, " at ", named(`${line.file}:${line.line}`, 200)) : null)));
}

// Who did it, as its column says; and what the column does not say.
function columnOf(step, hasMachines) {
  const machine = step.machine ?? step.thread.match(/machine (\d+)/)?.[1];
  return hasMachines && machine !== undefined ? `machine ${machine}` : step.thread;
}
function restOfName(step, hasMachines, few) {
  if (!few) return step.thread;
  if (!hasMachines) return "";
  const column = columnOf(step, true);
  return step.thread === column ? "" : step.thread.replace(` of ${column}`, "").replace(`${column}, `, "");
}

// One step: what it does, and where. A click shows the calls that led to it.
function stepCell(step, rest, stacks) {
  const stack = typeof step.stack === "number" ? stacks[step.stack] : [];
  const place = stack.find((line) => line.file) || (step.file ? step : undefined);
  const where = step.function ? ["in ", named(step.function, 200)] : place ? [] : ["the calls that lead here"];
  if (place) where.push(where.length ? ", " : "at ", named(`${place.file}:${place.line}`, 200));
  return [rest ? h("span", {class: "soft small"}, named(rest, 60), " ") : null, code(step.text, 300),
    step.died_before?.length ? h("div", {class: "small"}, "before: ", show(step.died_before.join("; "), 300)) : null,
    stack.length ? h("details", {class: "calls small"}, h("summary", {}, where), stackList(stack))
                 : step.function ? h("div", {class: "soft small"}, where) : null];
}

// ---- Executions of machines, and the moments at which machines die

// "0:1 4:2" as pairs, "5 6 7" as numbers.
const pairsOf = (text) => (text ? text.split(" ").map((pair) => pair.split(":").map(Number)) : []);
const numbersOf = (text) => (text ? text.split(" ").map(Number) : []);

// One machine's line: where it dies in the execution that is shown.
class DeathLine {
  constructor(view, machine) {
    this.view = view;
    this.machine = machine;
    // How many steps came before it fails, over all executions; Infinity: it does not.
    this.moments = [...new Set(view.runs.map((run) => run.deaths.get(machine) ?? Infinity))].sort((a, b) => a - b);
    this.label = h("span", {"aria-hidden": "true"});
    this.element = h("div", {class: this.moments.length > 1 ? "moment" : "moment fixed"}, this.label);
    if (this.moments.length > 1) this.makeMovable();
  }

  makeMovable() {
    for (const [name, value] of Object.entries({role: "slider", tabindex: 0, "aria-orientation": "vertical",
      "aria-label": `When machine ${this.machine} fails`, "aria-valuemin": 0, "aria-valuemax": this.moments.length - 1}))
      this.element.setAttribute(name, value);
    this.element.addEventListener("keydown", (event) => {
      const at = this.moments.indexOf(this.now()), last = this.moments.length - 1;
      const to = {ArrowUp: at - 1, ArrowLeft: at - 1, ArrowDown: at + 1, ArrowRight: at + 1, PageUp: at - 10, PageDown: at + 10,
        Home: 0, End: last}[event.key];
      if (to === undefined) return;
      event.preventDefault();
      this.view.move(this.machine, this.moments[Math.min(Math.max(to, 0), last)]);
      this.element.scrollIntoView({block: "nearest"});
    });
    this.element.addEventListener("pointerdown", (event) => {
      if (event.button > 0) return;
      event.preventDefault();
      this.element.focus({preventScroll: true});
      dragging(this.element, event.pointerId, (y) => this.view.move(this.machine, this.nearest(this.view.stepsAbove(y))));
    });
  }

  now() {
    return this.view.run.deaths.get(this.machine) ?? Infinity;
  }

  nearest(steps) {
    if (steps === Infinity) return this.moments.at(-1);
    const off = (moment) => Math.abs((moment === Infinity ? this.view.run.alive + 1 : moment) - steps);
    return this.moments.reduce((best, moment) => (off(moment) < off(best) ? moment : best));
  }

  say() {
    const moment = this.now(), dies = moment !== Infinity;
    this.label.textContent = `machine ${this.machine} ${dies ? "dies" : "does not die"}${this.moments.length > 1 ? " \u21c5" : ""}`;
    this.element.classList.toggle("alive", !dies);
    if (this.moments.length === 1) return;
    this.element.setAttribute("aria-valuenow", this.moments.indexOf(moment));
    this.element.setAttribute("aria-valuetext", dies ? `after ${count(moment, "step", "steps")}` : "it does not fail");
  }
}

const STORE_FATES = ["not looked at", "kept", "lost", "poisoned"];

// Explored executions that begin alike, one of them step by step, with a line a machine where it dies. The first one is
// shown first.
class MachinesView {
  constructor(result) {
    const {facts, violation} = result;
    const told = {steps: facts.machine_steps, stores: facts.machine_stores, list: facts.machine_runs, left_out: facts.machine_runs_left_out};
    this.result = result;
    this.told = told;
    this.stacks = violation ? violation.stacks || [] : [];
    this.runs = told.list.map((run) => ({...run, failures: pairsOf(run.failures).map(([machine, at]) => ({machine, at}))}));
    for (const run of this.runs) this.readRun(run);
    this.run = this.runs[0];
    this.columns = [...new Set(told.steps.map((step) => columnOf(step, true)))].sort();
    const machines = [...new Set(this.runs.flatMap((run) => [...run.deaths.keys()]))].sort((a, b) => a - b);
    this.lines = machines.map((machine) => new DeathLine(this, machine));
    this.moved = machines.length ? machines[0] : null;
    this.body = h("tbody");
    this.panel = h("aside", {class: "panel", "aria-label": "Executions in which this machine dies here"});
    this.live = h("div", {class: "hidden", "aria-live": "polite", role: "status"});
    this.table = h("div", {class: "operations lanes"}, h("table", {}, h("caption", {class: "hidden"}, "The steps of all machines, in order"),
      h("thead", {}, h("tr", {}, h("th", {class: "number", scope: "col"}, "step"), this.columns.map((column) => h("th", {scope: "col"}, named(column, 60))))),
      this.body), this.lines.map((line) => line.element));
    this.element = h("div", {class: machines.length ? "timeline" : "timeline alone"}, h("div", {class: "wide", tabindex: 0, role: "region", "aria-label": "The schedule"}, this.table),
      machines.length ? h("div", {}, this.panel, this.live) : null);
    this.show(this.run);
    new ResizeObserver(() => this.place()).observe(this.table);
  }

  // Its steps are those of the first one, up to where they part, and its own. `deaths`: how many steps came before a
  // machine failed first; failures do not count.
  readRun(run) {
    run.own = numbersOf(run.steps);
    run.deaths = new Map();
    run.failures.forEach(({machine, at}, i) => { if (!run.deaths.has(machine)) run.deaths.set(machine, at - i); });
    run.alive = run.same + run.own.length - run.failures.length;
    run.fates = new Map(pairsOf(run.stores));
  }

  show(run) {
    this.run = run;
    this.numbers = [...this.runs[0].own.slice(0, run.same), ...run.own];
    this.draw();
  }

  // The execution in which the machine dies at that moment: of several the one most like the one that is shown.
  move(machine, moment) {
    this.moved = machine;
    if ((this.run.deaths.get(machine) ?? Infinity) === moment) return;
    const likeness = (run) => this.lines.filter((line) => line.machine !== machine && (run.deaths.get(line.machine) ?? Infinity) === line.now()).length * 4 +
      run.example * 2 + run.violation;
    const fits = this.runs.filter((run) => (run.deaths.get(machine) ?? Infinity) === moment);
    this.show(fits.reduce((best, run) => (likeness(run) > likeness(best) ? run : best)));
  }

  drawn() {
    const {numbers} = this, {failures} = this.run, all = [];
    const isNear = (i) => failures.some(({at}) => Math.abs(i - at) <= 40);
    for (let i = 0; i < numbers.length; ++i)
      if (numbers.length <= 400 || i < 10 || i >= numbers.length - 10 || isNear(i)) all.push(i);
    return all;
  }

  draw() {
    const {numbers} = this, {failures} = this.run;
    const failing = new Set(failures.map(({at}) => at));
    const steps = this.run.example ? this.result.violation.steps : null;
    this.rows = [];
    this.body.replaceChildren();
    const wide = (kind, text) => this.body.append(h("tr", {class: kind}, h("td", {class: "number"}), h("td", {colspan: this.columns.length}, text)));
    let before = -1, dead = 0;
    for (const i of this.drawn()) {
      if (i > before + 1) wide("gap", `${(i - before - 1).toLocaleString("en")} more steps`);
      before = i;
      const step = steps && steps.length === numbers.length ? steps[i] : this.told.steps[numbers[i]];
      const column = columnOf(step, true), isFailure = failing.has(i);
      if (isFailure && this.rows.length) this.rows.at(-1).row.classList.add("above");
      const row = h("tr", {class: isFailure ? "failure below" : null}, h("td", {class: "number"}, String(i + 1)),
        this.columns.map((own) => h("td", {class: own === column ? "here" : null}, own === column ? stepCell(step, restOfName(step, true, true), this.stacks) : "")));
      this.body.append(row);
      dead = failures.filter(({at}) => at <= i).length;
      this.rows.push({row, alive: i + 1 - dead, machine: isFailure ? failures.find(({at}) => at === i).machine : null});
    }
    if (this.run.example) for (const thread of this.result.violation.waiting) {
      const column = columnOf(thread, true), rest = restOfName(thread, true, true);
      this.body.append(h("tr", {class: "raced"}, h("td", {class: "number"}, "end"), this.columns.map((own) => h("td", {class: own === column ? "here waits" : null},
        own === column ? [rest ? h("span", {class: "soft small"}, named(rest, 60), " ") : null, named(thread.text, 300)] : ""))));
    }
    wide("start", this.run.violation ? named(this.run.text, 300) : "nothing failed in this execution");
    for (const line of this.lines) line.say();
    this.place();
    this.drawPanel();
  }

  // The line of a machine stands at the upper edge of its failure, that of one that lives below all steps.
  place() {
    const own = this.table.getBoundingClientRect();
    let living = 0;
    for (const line of this.lines) {
      const at = this.rows.find(({machine}) => machine === line.machine);
      const end = this.body.lastElementChild.getBoundingClientRect().bottom + 18 + 30 * (at ? 0 : living++);
      line.element.style.top = `${(at ? at.row.getBoundingClientRect().top : end) - own.top}px`;
    }
    this.table.style.paddingBottom = `${30 * living + 12}px`;
  }

  // How many steps stand above this height.
  stepsAbove(y) {
    if (y > this.rows.at(-1).row.getBoundingClientRect().bottom + 6) return Infinity;
    let steps = 0;
    for (const {row, alive} of this.rows) {
      const box = row.getBoundingClientRect();
      if ((box.top + box.bottom) / 2 < y) steps = alive;
    }
    return steps;
  }

  drawPanel() {
    if (this.moved === null) return;
    const machine = this.moved, moment = this.run.deaths.get(machine) ?? Infinity;
    const here = this.runs.filter((run) => (run.deaths.get(machine) ?? Infinity) === moment);
    const failing = here.filter((run) => run.violation).length;
    const where = moment === Infinity ? `does not die` : `dies after ${count(moment, "step", "steps")}`;
    const sentence = `Machine ${machine} ${where} in ${count(here.length, "execution", "executions")} of the ${this.runs.length.toLocaleString("en")} shown; ` +
      `${failing === 0 ? "none" : failing.toLocaleString("en")} of them fail${failing === 1 ? "s" : ""}.`;
    const ordered = [...here].sort((a, b) => b.example - a.example || b.violation - a.violation);
    const button = (run) => () => h("li", {}, h("button", {type: "button", "aria-pressed": String(run === this.run), click: () => {
      this.show(run);
      this.panel.querySelector('[aria-pressed="true"]')?.focus({preventScroll: true});
    }}, mark(run.violation ? "fails" : "fine", run.violation ? "fails" : "fine"),
      h("span", {}, run.violation ? named(run.text, 160) : "nothing failed", run.example ? h("span", {class: "hand"}, "the one at hand") : null),
      h("span", {class: "held"}, this.otherDeaths(run, machine))));
    const left = this.told.left_out;
    this.panel.replaceChildren(h("h2", {}, "At this moment"), h("p", {}, sentence), ...listed(ordered.map(button), 40, "ul", {class: "states"}), this.holds(here) || "",
      left > 0 ? h("p", {class: "small soft"}, `${count(left, "more explored execution is", "more explored executions are")} not on this page.`) : "");
    clearTimeout(this.timer);
    this.timer = setTimeout(() => { this.live.textContent = sentence; }, 250);
  }

  otherDeaths(run, machine) {
    const others = [...run.deaths].filter(([other]) => other !== machine).map(([other, at]) => `machine ${other} dies after ${count(at, "step", "steps")}`);
    const lost = [...run.fates].filter(([, fate]) => fate > 1).map(([store, fate]) => `${STORE_FATES[fate]}: ${this.told.stores[store]}`);
    return named([...others, ...lost].join("; ") || "nothing was seen to be lost", 300);
  }

  // What became of the stores that were in a dead machine's caches, over these executions.
  holds(here) {
    const seen = new Map();
    for (const run of here) for (const [store, fate] of run.fates) {
      if (!seen.has(store)) seen.set(store, [0, 0, 0, 0]);
      ++seen.get(store)[fate];
    }
    if (seen.size === 0) return null;
    const rows = [...seen].map(([store, fates]) => () => h("tr", {}, h("td", {}, named(this.told.stores[store], 160)), h("td", {}, fates.map((times, fate) =>
      (times ? h("span", {class: this.run.fates.get(store) === fate ? "value chosen" : "value"}, h("bdi", {}, STORE_FATES[fate]), h("span", {class: "soft small"}, ` in ${times}`)) : null)))));
    const [body, more] = listed(rows, 30, "tbody", {});
    return [h("h3", {}, "What its lines could hold"), h("table", {class: "holds"}, h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "store in its caches"),
      h("th", {scope: "col"}, "what survivors saw, in how many"))), body), more || ""].filter(Boolean).reduce((all, part) => (all.append(part), all), h("div"));
  }
}

function machinesSection(result) {
  const runs = result.facts.machine_runs;
  if (!runs || runs.length < 2) return null;
  const view = new MachinesView(result);
  return section(result.violation ? "The schedule that leads there, and where machines die" : "An explored schedule, and where machines die",
    view.lines.length ? h("p", {class: "soft"}, "Drag a machine's line, or move it by the arrow keys, to another moment at which the machine was made to die.") : null, view.element);
}

function scheduleSection(violation) {
  const {steps, waiting, race} = violation, stacks = violation.stacks || [];
  if (steps.length + waiting.length === 0) return null;
  const hasMachines = steps.some((step) => step.machine !== undefined);
  const all = [...steps, ...waiting];
  const columns = [...new Set(all.map((step) => columnOf(step, hasMachines)))];
  const few = columns.length <= 8;
  const raced = new Set(race ? race.accesses.map((a) => a.step) : []);
  const place = (column, content, kind) => (few ? columns.map((own) => h("td", {class: own === column ? kind : null}, own === column ? content : ""))
                                                : [h("td", {class: kind}, content)]);
  const row = (number, step, content, kind, rowKind) => h("tr", {class: rowKind}, h("td", {class: "number"}, number),
    place(columnOf(step, hasMachines), content, kind));
  const skipAt = violation.steps_left_out ? violation.steps_first : Infinity;
  const number = (i) => i + 1 + (i >= skipAt ? violation.steps_left_out : 0);
  const rows = steps.map((step, i) => () => row(String(number(i)), step, stepCell(step, restOfName(step, hasMachines, few), stacks), "here",
    step.died_before ? "failure" : raced.has(number(i)) ? "raced" : null));
  if (skipAt < rows.length) rows.splice(skipAt, 0, () => h("tr", {}, h("td"), h("td", {colspan: few ? columns.length : 1, class: "soft"}, `${count(violation.steps_left_out, "more step", "more steps")}, not on this page`)));
  for (const thread of waiting) {
    const rest = restOfName(thread, hasMachines, few), stack = typeof thread.stack === "number" ? stacks[thread.stack] : [];
    rows.push(() => row("end", thread, [rest ? h("span", {class: "soft small"}, named(rest, 60), " ") : null, h("strong", {}, named(thread.text, 300)),
      thread.holds.length ? h("div", {class: "small"}, "holds ", named(thread.holds.join(", "), 300)) : null,
      stack.length ? h("details", {class: "calls small"}, h("summary", {}, "the calls that lead here"), stackList(stack)) : null], "here waits", "raced"));
  }
  const [body, more] = listed(rows, 1500, "tbody", {});
  return section("The schedule that leads there", h("div", {class: "wide lanes", tabindex: 0, role: "region", "aria-label": "The schedule"},
    h("table", {}, h("thead", {}, h("tr", {}, h("th", {class: "number", scope: "col"}, "step"),
      few ? columns.map((column) => h("th", {scope: "col"}, named(column, 60))) : h("th", {scope: "col"}, "thread and operation"))), body)), more || "");
}

// The lines of the program that the steps are at, with the steps beside them. `sources` has the text of files.
function sourceSection(violation, sources, title) {
  const stacks = violation.stacks || [], files = new Map();
  const skipAt = violation.steps_left_out ? violation.steps_first : Infinity;
  const note = (stack, text, kind) => {
    const place = stack.find((line) => line.file && Object.hasOwn(sources, line.file));
    if (!place) return;
    if (!files.has(place.file)) files.set(place.file, new Map());
    const lines = files.get(place.file);
    if (!lines.has(place.line)) lines.set(place.line, []);
    lines.get(place.line).push({text, kind});
  };
  violation.steps.forEach((step, i) => {
    const number = i + 1 + (i >= skipAt ? violation.steps_left_out : 0);
    if (typeof step.stack === "number") note(stacks[step.stack], `${number} ${step.thread}`, null);
  });
  for (const thread of violation.waiting)
    if (typeof thread.stack === "number") note(stacks[thread.stack], `${thread.thread} waits here`, "waits");
  for (const access of violation.race ? violation.race.accesses : [])
    note(access.stack, `${access.thread} ${access.frees ? "frees" : access.writes ? "writes" : "reads"}`, "waits");
  if (files.size === 0) return null;
  const listing = (file, marks) => {
    const {first, lines} = sources[file], rows = [];
    const isNear = (line) => [-2, -1, 0, 1, 2].some((off) => marks.has(line + off));
    let isGap = false;
    lines.forEach((text, i) => {
      const line = first + i, here = marks.get(line) || [];
      if (!isNear(line)) {
        isGap = rows.length > 0;
        return;
      }
      if (isGap) rows.push(h("tr", {class: "gap"}, h("td", {class: "number"}, "…"), h("td"), h("td")));
      isGap = false;
      const shown = here.slice(0, 12).map(({text: said, kind}) => h("span", {class: kind ? `chip ${kind}` : "chip"}, named(said, 60)));
      if (here.length > 12) shown.push(h("span", {class: "soft small"}, ` and ${here.length - 12} more`));
      rows.push(h("tr", {class: here.length ? "at" : null}, h("td", {class: "number"}, String(line)), h("td", {class: "code"}, show(text, 300)), h("td", {}, shown)));
    });
    return [h("h3", {}, named(file, 200)), h("div", {class: "wide source", tabindex: 0, role: "region", "aria-label": `Source lines of ${file}`},
      h("table", {}, h("thead", {class: "hidden"}, h("tr", {}, ["line", "source", "steps"].map((text) => h("th", {scope: "col"}, text)))), h("tbody", {}, rows)))];
  };
  return section(title, [...files].map(([file, marks]) => listing(file, marks)));
}

function raceSection(race) {
  if (!race) return null;
  const side = (access) => h("div", {}, h("h3", {}, show(access.thread, 60), ` ${access.frees ? "frees" : access.writes ? "writes" : "reads"}`, access.atomic ? " (atomic)" : ""),
    h("p", {class: "soft small"}, `after step ${access.step}`),
    stackList(access.stack));
  return section(["The data race on ", code(race.variable, 200)], h("p", {class: "soft"}, "Nothing orders these two accesses."), h("div", {class: "two"}, race.accesses.map(side)));
}

// ---- The rest of a result

function streamSections(violation, names) {
  return [["stdout", "Output"], ["stderr", "Stderr"]].map(([key, title]) => (violation[key]
    ? section(`${title} of ${names.recovery}`, h("pre", {tabindex: 0}, show(violation[key], 20000)), violation[key + "_cut"] ? h("p", {class: "soft"}, "The rest was cut off.") : null)
    : null));
}

function findingsSection(result) {
  if (result.violations.length === 0) return null;
  return section("All kinds of violation", table(null, [["how often"], "kind", "what"],
    result.violations.map((f) => [f.count.toLocaleString("en"), show(f.kind, 60),
      [show(f.text, 300), f.message && !f.text.includes(f.message) ? h("div", {class: "soft small"}, show(f.message, 300)) : null]])),
    result.violations_left_out ? h("p", {class: "soft"}, `${count(result.violations_left_out, "more", "more")} of kinds that are not listed`) : null);
}

function outcomesSection(result) {
  if (!result.outcomes || result.outcomes.length === 0) return null;
  const rows = result.outcomes.map((o) => () => h("tr", {}, h("td", {class: "number"}, o.recoveries.toLocaleString("en")),
    h("td", {}, o.violations ? mark("fails", `${o.violations.toLocaleString("en")} failed`) : mark("fine", "fine")), h("td", {}, named(o.output || "(no output)", 300))));
  const [body, more] = listed(rows, 50, "tbody", {});
  return section("Outcomes", h("div", {class: "wide"}, h("table", {class: "outcomes"}, h("thead", {}, h("tr", {}, h("th", {class: "number", scope: "col"}, "recoveries"),
    h("th", {scope: "col"}, ""), h("th", {scope: "col"}, "outcome"))), body)), more || "", result.outcomes_cut ? h("p", {class: "soft"}, "There were more.") : null);
}

function sentences(title, list) {
  return list.length ? section(title, h("ul", {}, list.map((text) => h("li", {}, show(text))))) : null;
}

function memoryNotesSection(result) {
  if (result.memory_notes.length === 0) return null;
  return section("Notes on the use of persistent memory", table(null, [["how often"], "kind", "place", "what"],
    result.memory_notes.map((n) => [n.count.toLocaleString("en"), show(n.kind, 60), code(n.place, 100), show(n.text, 400)])),
    result.memory_notes_left_out ? h("p", {class: "soft"}, `${count(result.memory_notes_left_out, "more is", "more are")} not listed`) : null);
}

const plain = (value) => (value === null ? "none" : Array.isArray(value) ? value.map((v) => (typeof v === "object" ? Object.values(v).join(" ") : v)).join(", ") || "none" : String(value));

function factsSection(result) {
  const tables = Object.entries(result.facts).filter(([name, value]) => !name.startsWith("machine_") && Array.isArray(value) && value.length &&
    typeof value[0] === "object");
  return tables.map(([name, rows]) => section(capital(name.replaceAll("_", " ")), table(null, Object.keys(rows[0]).map((key) => key.replaceAll("_", " ")),
    rows.map((row) => Object.values(row).map((value) => show(plain(value), 200))))));
}

function settingsSection(result) {
  const rows = [["settings", result.settings], ["bounds", result.bounds], ["model", result.model], ["execution", result.execution]]
    .flatMap(([group, values]) => Object.entries(values).map(([name, value]) => [group, name.replaceAll("_", " "), show(plain(value), 200)]));
  return h("section", {}, h("details", {}, h("summary", {}, "Settings, bounds and the program's run"), table(null, ["", "name", "value"], rows)));
}

// ---- A whole result. Returns its elements, and the view of its first crash, if there is one.

function resultView(result) {
  const parts = [header(result)];
  const {violation} = result;
  const names = violation ? violation.names : result.states ? result.states.names : null;
  let view = null;
  if (violation)
    parts.push(mends(violation), machinesSection(result) || scheduleSection(violation), raceSection(violation.race), sourceSection(violation, result.sources || {},
      result.facts.machine_runs ? "The schedule of the violation in the source" : "The same schedule in the source"));
  else parts.push(machinesSection(result));
  const operations = violation ? violation.crashes[0]?.operations : result.states?.operations;
  if (operations && operations.length) {
    view = new CrashView(result, operations, violation ? violation.crashes[0] : null, names);
    parts.push(section(violation ? `What ${names.program} did, and what of it ${names.medium} held` : `What ${names.program} did, and what of it ${names.medium} could hold`,
      view.panel ? h("p", {class: "soft"}, "Drag the line, or move it by the arrow keys, to another moment.") : null, view.element), memorySection(view));
  }
  if (violation) {
    parts.push(filesSection(violation));
    violation.crashes.forEach((crash, i) => {
      if (i > 0) {
        const again = new CrashView({states: null}, crash.operations, crash, {...names, program: names.recovery});
        parts.push(section(`What that run of ${names.recovery} did, and what of it ${names.medium} held after a second crash`, again.element));
        again.update();
      }
      parts.push(recoverySection(crash, names, i > 0));
    });
    parts.push(...streamSections(violation, names));
  }
  parts.push(findingsSection(result), outcomesSection(result), ...factsSection(result), sentences("Not covered", result.not_covered),
    sentences("Notes", result.notes), memoryNotesSection(result), settingsSection(result));
  if (view) view.update();
  return {elements: parts.filter(Boolean), view};
}

// ---- Several models

// An outcome's state is shown below, where one was kept.
function selectOutcome(view, result, outcome) {
  if (!view || !view.panel) return;
  const index = result.outcomes.findIndex((o) => o.output === outcome);
  const state = view.panel.states.find((s) => s.outcome === index && s.example) || view.panel.states.find((s) => s.outcome === index);
  if (state) view.select(state);
}

function comparison(page) {
  const below = h("div", {tabindex: -1, role: "region", "aria-label": "The example"});
  const buttons = [];
  const open = (result, outcome, button) => {
    for (const other of buttons) other.setAttribute("aria-pressed", String(other === button));
    const {elements, view} = resultView(result);
    below.replaceChildren(...elements);
    if (outcome !== null) selectOutcome(view, result, outcome);
    below.scrollIntoView({block: "start"});
    below.focus({preventScroll: true});
  };
  const button = (result, outcome, ...children) => {
    const made = h("button", {type: "button", "aria-pressed": "false", click: () => open(result, outcome, made)}, ...children);
    buttons.push(made);
    return made;
  };
  const outcomes = [...new Set(results.flatMap((r) => (r.outcomes || []).map((o) => o.output)))];
  const cell = (result, outcome) => {
    const found = (result.outcomes || []).find((o) => o.output === outcome);
    if (!found) return h("td", {class: "empty"}, "never");
    return h("td", {}, button(result, outcome, mark(found.violations ? "fails" : "fine", count(found.recoveries, "recovery", "recoveries"))));
  };
  const rows = outcomes.map((outcome) => () => h("tr", {}, h("th", {scope: "row"}, named(outcome || "(no output)", 200)), results.map((result) => cell(result, outcome))));
  const [body, more] = listed(rows, 100, "tbody", {});
  const first = results[0], failing = results.filter((r) => r.verdict === "violation").length;
  page.append(h("header", {}, h("p", {class: `verdict ${failing ? "violation" : ""}`}, h("span", {class: `mark ${failing ? "fails" : "yes"}`}), failing ? "violation" : "no violation"),
    h("h1", {}, failing ? `It fails under ${failing} of ${count(results.length, "model", "models")}` : `Nothing failed under ${count(results.length, "model", "models")}`),
    h("p", {class: "command"}, code(commandText("compare", first)))),
    section("Models and outcomes", h("p", {class: "soft"}, "Each cell opens an example below."),
      h("div", {class: "wide matrix", tabindex: 0, role: "region", "aria-label": "Models and outcomes"}, h("table", {}, h("thead", {}, h("tr", {}, h("th", {scope: "col"}, "outcome"),
        results.map((r) => h("th", {scope: "col"}, show(r.model.text, 120))))),
      h("tbody", {}, h("tr", {}, h("th", {scope: "row"}, "verdict"), results.map((r) => h("td", {}, button(r, null, mark(MARKS[r.verdict], r.verdict)))))), body)), more || ""), below);
}

const page = document.getElementById("page");
if (typeof results === "string") {
  page.append(h("p", {}, results));
} else if (results.length === 1) {
  document.title = `crashcut: ${results[0].verdict}`;
  page.append(...resultView(results[0]).elements);
} else {
  document.title = "crashcut: models compared";
  comparison(page);
}
// The line stands where the fonts put the rows.
document.fonts?.ready.then(() => dispatchEvent(new Event("resize")));
})();
