"""The CSS and the script of the cluster's page.

Apart from its content. The page loads nothing, follows the light or dark mode of the reader's
system, and gives each part of a replica a shape and a sign, so that it can be read without colours.
"""

from typing import Final

STYLE: Final = """
:root { color-scheme: light dark;
  --paper:#fff; --panel:#f5f6f8; --ink:#1d2126; --quiet:#5c6570; --line:#dfe3e8; --guide:#eceff2;
  --lead:#0072b2; --on-lead:#fff; --sync:#cbe3f3; --sync-edge:#5c93b8; --on-sync:#1f4a66;
  --move:#00795a; --out:#fbe3b5; --out-edge:#a86a00; --on-out:#6b4300; --off:#3b3b3b; --on-off:#fff;
  --trouble:#a33b00; --trouble-paper:#fff3ec; --good:#00664a; }
@media (prefers-color-scheme: dark) { :root {
  --paper:#14171b; --panel:#1d2227; --ink:#e8eaed; --quiet:#9aa4af; --line:#323941; --guide:#22272d;
  --lead:#4db2ec; --on-lead:#06202f; --sync:#1b3b50; --sync-edge:#4f86a8; --on-sync:#cfe8f8;
  --move:#3fd0a4; --out:#4a3510; --out-edge:#e0a030; --on-out:#ffdf9e;
  --off:#8b929a; --on-off:#14171b;
  --trouble:#ffb088; --trouble-paper:#33221a; --good:#5fd6ae; } }
* { box-sizing:border-box }
body { margin:0; padding:28px 32px 64px; background:var(--paper); color:var(--ink);
  font:14px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif }
h1 { margin:0; font-size:22px; letter-spacing:-.01em } h2 { font-size:16px; margin:36px 0 10px }
.quiet { color:var(--quiet) } p { margin:2px 0; max-width:90ch }
code { font:12.5px ui-monospace,"SF Mono",Menlo,"DejaVu Sans Mono",monospace }
.tiles { display:flex; flex-wrap:wrap; gap:10px; margin:20px 0 }
.tile { background:var(--panel); border:1px solid var(--line); border-radius:8px;
  padding:10px 16px; min-width:118px }
.tile b { display:block; font-size:24px; line-height:1.2; font-variant-numeric:tabular-nums }
.tile.bad { background:var(--trouble-paper); border-color:var(--trouble); color:var(--trouble) }
table { border-collapse:collapse } th { text-align:left; font-weight:600 }
td,th { padding:4px 18px 4px 0; border-bottom:1px solid var(--line); vertical-align:top }
td.n,th.n { text-align:right; font-variant-numeric:tabular-nums }
.told td { white-space:nowrap }
.told td.why { white-space:normal; min-width:280px; max-width:520px }
.wide { overflow-x:auto } .bad { color:var(--trouble) }
.tools { display:flex; flex-wrap:wrap; gap:12px; align-items:center; margin:8px 0 14px }
input,select { font:inherit; color:inherit; background:var(--panel); border:1px solid var(--line);
  border-radius:6px; padding:5px 10px }
input { width:230px } :focus-visible { outline:2px solid var(--lead); outline-offset:1px }
.legend { display:flex; flex-wrap:wrap; gap:6px 20px; margin:6px 0 }
.legend span { display:inline-flex; align-items:center; gap:7px }
details { border-top:1px solid var(--line) }
details:last-of-type { border-bottom:1px solid var(--line) }
summary { padding:9px 2px; cursor:pointer; font-weight:600 } summary .quiet { font-weight:400 }
.rows { overflow-x:auto; padding-bottom:12px }
.large .chunk { content-visibility:auto }
.chunk { min-width:calc(var(--brokers)*30px + 600px) }
.row { display:grid; grid-template-columns:64px repeat(var(--brokers),30px) max-content;
  align-items:center; height:28px; width:max-content; min-width:100% }
.row > b { grid-column:1; font-weight:400; text-align:right; padding-right:14px; height:100%;
  line-height:28px; position:sticky; left:0; z-index:1; background:var(--paper);
  font-variant-numeric:tabular-nums }
.row.trouble > b { font-weight:700; color:var(--trouble) }
.row::before { content:""; grid-row:1; grid-column:2 / span var(--brokers); height:1px;
  background:var(--guide) }
.row > * { grid-row:1 }
.row em { grid-column:calc(var(--brokers) + 2); font-style:normal; padding-left:14px;
  white-space:nowrap; color:var(--quiet) }
.row.trouble em strong { color:var(--trouble); font-weight:600 }
.head { height:auto; align-items:end; font-weight:600; padding-bottom:4px }
.head::before { display:none } .head i { font-style:normal; text-align:center }
.head i.bad::after { content:"!"; }
i.c { width:24px; height:22px; margin:auto; border-radius:5px; font:700 13px/20px system-ui,
  "DejaVu Sans",sans-serif; text-align:center; border:1px solid transparent; position:relative }
.l { background:var(--lead); color:var(--on-lead) } .l::before { content:"L" }
.s { background:var(--sync); color:var(--on-sync); border-color:var(--sync-edge)!important }
.s::before { content:"•" }
.o { background:repeating-linear-gradient(-45deg,var(--out) 0 5px,var(--paper) 5px 7px);
  color:var(--on-out); border:1px dashed var(--out-edge)!important } .o::before { content:"!" }
.m { background:var(--paper); color:var(--move); border:2px solid var(--move)!important;
  line-height:18px!important }
.m::before { content:"→" } .m.g::before { content:"←" }
.f { background:var(--off); color:var(--on-off) } .f::before { content:"×" }
.l.g::after,.l.a::after { content:"←"; position:absolute; right:1px; top:-5px; font-size:9px }
.l.a::after { content:"→" }
.none { padding:18px 2px; color:var(--quiet) }
@media print { .tools { display:none } .large .chunk { content-visibility:visible } }
"""

SCRIPT: Final = """
const find = document.getElementById("find"), show = document.getElementById("show");
const rows = [...document.querySelectorAll(".row[data-n]")];
const topics = [...document.querySelectorAll("details")];
const none = document.getElementById("none");
function sift() {
  const text = find.value.trim().toLowerCase(), what = show.value;
  for (const row of rows) {
    const named = row.dataset.n.toLowerCase().includes(text);
    row.hidden = !(named && (what === "all" || row.classList.contains(what)));
    row.style.display = row.hidden ? "none" : "";
  }
  let any = false;
  for (const topic of topics) {
    topic.hidden = !topic.querySelector(".row[data-n]:not([hidden])");
    any = any || !topic.hidden;
    if (text || what !== "all") topic.open = !topic.hidden;
  }
  none.hidden = any;
}
find.addEventListener("input", sift); show.addEventListener("change", sift);
"""
