"""The pages under `/ops`: what an operator looks at, and what may be done there. HTML made here; no build step.

Each module is a page with its routes; `access` says who may, `pages` makes HTML, `charts` makes pictures.
"""
