"""Dashboard for operators under `/ops`: server-rendered HTML without a build step.

Each module of `pages` is one page with its routes; `access` checks permissions, `rendering` renders templates;
`svg_charts` and `svg_graph` draw SVG.
"""
