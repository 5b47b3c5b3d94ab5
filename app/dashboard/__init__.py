"""The pages under `/ops`: what an operator looks at, and what may be done there. HTML made here; no build step.

A module of `pages` is a page with its routes; `access` says who may, `rendering` makes HTML, `charts` makes pictures.
"""
