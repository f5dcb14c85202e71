"""How the page of the report looks."""

from __future__ import annotations

__all__ = ["CSS"]

CSS = """
:root { --ink: #1e293b; --soft: #64748b; --line: #e2e8f0; --paper: #ffffff; --ground: #f8fafc; --accent: #2563eb; }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0; color: var(--ink); background: var(--ground); display: flex;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
nav { position: sticky; top: 0; height: 100vh; overflow-y: auto; flex: 0 0 220px; padding: 24px 16px;
  border-right: 1px solid var(--line); background: var(--paper); font-size: 14px; }
nav a { display: block; color: var(--soft); text-decoration: none; padding: 2px 0 2px 12px; }
nav a:hover { color: var(--accent); }
nav a.brand { font-weight: 700; font-size: 17px; color: var(--ink); padding-left: 0; margin-bottom: 12px; }
nav a.paper { font-weight: 600; color: var(--ink); padding-left: 0; margin-top: 12px; }
main { flex: 1; min-width: 0; max-width: 980px; margin: 0 auto; padding: 32px 32px 96px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 12px; }
h2 { font-size: 25px; margin: 64px 0 4px; padding-top: 16px; border-top: 3px solid var(--accent); }
h3 { font-size: 18px; margin: 0 0 8px; }
.number { color: var(--accent); margin-right: 4px; }
.reference { color: var(--soft); margin: 0 0 8px; font-style: italic; }
article { background: var(--paper); border: 1px solid var(--line); border-radius: 12px; padding: 24px; margin: 24px 0;
  box-shadow: 0 1px 3px rgb(15 23 42 / 6%); }
article p { margin: 8px 0; }
.plot svg { width: 100%; height: auto; max-width: 800px; display: block; margin: 8px auto; }
.verdict { display: inline-block; border-radius: 999px; padding: 0 10px; font-size: 13px; font-weight: 600;
  white-space: nowrap; }
.verdict.agrees { color: #065f46; background: #d1fae5; }
.verdict.differs { color: #991b1b; background: #fee2e2; }
.verdict.open { color: #475569; background: #e2e8f0; }
.checks { width: 100%; background: var(--paper); border: 1px solid var(--line); margin: 12px 0; }
.checks td, .checks th { padding: 6px 10px; border-bottom: 1px solid var(--line); text-align: left;
  vertical-align: top; }
.checks i, .checks small { color: var(--soft); }
pre { background: #f1f5f9; border-radius: 8px; padding: 12px; overflow-x: auto; font-size: 13px; }
.notes { color: var(--soft); font-size: 14px; padding-left: 20px; }
.mark { display: inline-block; font-size: 12px; border-radius: 999px; padding: 1px 10px; margin-right: 6px; }
.mark.measured { background: #dbeafe; color: #1d4ed8; }
.mark.simulated { background: #fef3c7; color: #92400e; border: 1px dashed #d97706; }
.mark.computed { background: #ede9fe; color: #5b21b6; border: 1px dotted #7c3aed; }
.mark.published { background: #f1f5f9; color: #334155; border: 1px solid #cbd5e1; }
.legend { list-style: none; padding: 0; }
table { border-collapse: collapse; font-size: 14px; }
.facts { width: 100%; background: var(--paper); border: 1px solid var(--line); border-radius: 8px; }
.facts th { text-align: left; width: 170px; vertical-align: top; font-weight: 600; }
.facts td, .facts th { padding: 6px 12px; border-bottom: 1px solid var(--line); }
.points { overflow-x: auto; }
.points td, .points th { padding: 3px 12px; border-bottom: 1px solid var(--line); text-align: right;
  font-variant-numeric: tabular-nums; }
.points p { color: var(--soft); font-size: 13px; }
details summary { cursor: pointer; color: var(--soft); font-size: 14px; }
.command { color: var(--soft); font-size: 13px; }
code { background: #f1f5f9; border-radius: 4px; padding: 1px 6px; font-size: 13px; }
.missing { background: #f1f5f9; border-radius: 12px; padding: 16px 24px; }
.missing ul { margin: 0; padding-left: 20px; }
.stage { background: var(--paper); border: 1px solid var(--line); border-radius: 12px; padding: 20px 24px;
  margin: 20px 0; }
.stage svg { width: 100%; height: auto; max-width: 840px; }
.stage .controls { display: flex; gap: 8px; align-items: center; flex-wrap: wrap; margin: 8px 0; }
.stage button { border: 1px solid var(--line); background: var(--ground); border-radius: 8px; padding: 4px 14px;
  font: inherit; cursor: pointer; }
.stage button:hover { border-color: var(--accent); color: var(--accent); }
.stage .now { min-height: 3.2em; }
.stage .met { color: var(--soft); font-size: 14px; min-height: 1.6em; }
@media (max-width: 860px) { body { display: block; } nav { display: none; } main { padding: 16px; } }
@media print { nav { display: none; } article { break-inside: avoid; } }
"""
