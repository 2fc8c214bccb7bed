"""The style sheet of report.html: light, dark, phone, print."""

from __future__ import annotations

STYLE = """
:root{color-scheme:light dark;--bg:#fbfbfa;--card:#fff;--fg:#1c1f23;--muted:#5d656f;--line:#e1e3e6;--ok:#1a7f4b;--warn:#9a6200;
--bad:#b3261e;--cpu:#8a919c;--npu:#d97706;--compiled:#2563c9;--view:#9fb6d6;--own:#2563c9;--dynamo:#8a919c;--aot:#b9a06b;--run:#1a7f4b;--soft:#eef1f5}
@media(prefers-color-scheme:dark){:root{--bg:#121417;--card:#1a1d21;--fg:#e7e9ec;--muted:#a0a8b2;--line:#30353c;--ok:#4fc787;--warn:#e5ae4a;
--bad:#ff8a80;--cpu:#8b94a0;--npu:#f0a03c;--compiled:#6ea8ff;--view:#48618a;--own:#6ea8ff;--dynamo:#8b94a0;--aot:#c9b27e;--run:#4fc787;--soft:#22262b}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--fg);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
main{max-width:760px;margin:0 auto;padding:24px 20px 64px}
h1{font-size:1.6rem;line-height:1.25;margin:.2rem 0;overflow-wrap:anywhere}h2{font-size:1.2rem;margin:2.6rem 0 .5rem;padding-top:.8rem;border-top:1px solid var(--line)}
h3{font-size:1rem;margin:1.5rem 0 .4rem}p{margin:.5rem 0}.m{color:var(--muted)}.kicker{color:var(--muted);margin:0}
.verdict{border-left:5px solid var(--ok);background:var(--card);padding:12px 16px;margin:16px 0;border-radius:4px}
.verdict.warning{border-color:var(--warn)}.verdict.failed{border-color:var(--bad)}.verdict p{margin:0}.verdict b{display:block}
.ok b:first-child,.s-ok{color:var(--ok)}.warning b:first-child{color:var(--warn)}.failed b:first-child,.s-failed,td.bad,.error b{color:var(--bad)}.s-skipped{color:var(--muted)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(128px,1fr));gap:10px;margin:16px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:10px 12px}.tile b{display:block;font-size:1.35rem;line-height:1.3}.tile span{color:var(--muted);font-size:.86rem;display:block;line-height:1.35}
.error{background:var(--card);border:1px solid var(--line);border-left:5px solid var(--bad);border-radius:4px;padding:10px 14px;margin:10px 0;overflow-wrap:anywhere}
.error p{margin:.15rem 0}p,li{overflow-wrap:anywhere}pre{overflow-x:auto;font-size:.8rem;line-height:1.4;background:var(--soft);padding:10px;border-radius:4px;white-space:pre-wrap;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:.6rem 0}table{border-collapse:collapse;width:100%;font-size:.88rem;font-variant-numeric:tabular-nums}
th,td{text-align:right;padding:4px 8px;border-bottom:1px solid var(--line);vertical-align:top;white-space:nowrap}th{font-weight:600;color:var(--muted)}
th:first-child,td:first-child{text-align:left;padding-left:0}td.l,th.l{text-align:left}td.w{white-space:normal;text-align:left;min-width:9rem;overflow-wrap:anywhere}
tr.mark td{background:color-mix(in srgb,var(--bad) 14%,transparent)}
code{font-size:.92em;white-space:nowrap}details{margin:.7rem 0}summary{cursor:pointer;color:var(--muted)}summary:hover{color:var(--fg)}
.chart{margin:.6rem 0}.chart svg{display:block;max-width:100%;height:auto}svg.narrow{display:none!important}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:4px 16px;padding:0;margin:.4rem 0;font-size:.88rem;color:var(--muted)}.legend svg{margin-right:6px;vertical-align:-1px}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:.6rem 0;font-size:.93rem}dt{color:var(--muted)}dd{margin:0;overflow-wrap:anywhere}
.t{font:13px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif;fill:var(--fg)}.t.m{fill:var(--muted)}.t.b{font-weight:600}.t.bad{fill:var(--bad)}
.grid{stroke:var(--line)}.limit{stroke:var(--bad);stroke-dasharray:5 4}.cross{stroke:var(--bad);stroke-width:2}
.f-cpu{fill:var(--cpu)}.f-npu{fill:var(--npu)}.f-compiled{fill:var(--compiled)}.f-bad{fill:var(--bad)}.f-native{fill:var(--compiled)}.f-view{fill:var(--view)}.f-fallback,.f-island{fill:var(--npu)}.f-other{fill:var(--cpu)}
.f-dynamo{fill:var(--dynamo)}.f-aot{fill:var(--aot)}.f-own{fill:var(--own)}.f-run{fill:var(--run)}.f-weights{fill:var(--cpu)}
polyline{fill:none;stroke-width:1.3;stroke-opacity:.75}.l-cpu{stroke:var(--cpu)}.l-npu{stroke:var(--npu)}.l-compiled{stroke:var(--compiled)}
@media(max-width:560px){main{padding:16px 16px 48px}h1{font-size:1.3rem}svg.wide{display:none!important}svg.narrow{display:block!important}.tiles{grid-template-columns:1fr 1fr}
table{font-size:.82rem}th,td{padding:4px 5px}dl{grid-template-columns:1fr;gap:0}dd{margin-bottom:6px}}
@media print{:root{color-scheme:light;--bg:#fff;--card:#fff;--fg:#000;--muted:#444;--line:#ccc;--ok:#1a7f4b;--warn:#9a6200;--bad:#b3261e;--cpu:#8a919c;--npu:#d97706;--compiled:#2563c9;--view:#9fb6d6;--own:#2563c9;--dynamo:#8a919c;--aot:#b9a06b;--run:#1a7f4b;--soft:#f3f3f3}
body{font-size:11pt;print-color-adjust:exact;-webkit-print-color-adjust:exact}main{max-width:none;padding:0}svg.wide{display:block!important}svg.narrow{display:none!important}
.chart,.tile,.error,.verdict,tr{break-inside:avoid}h2,h3{break-after:avoid}details:not([open]){display:none}}
"""
