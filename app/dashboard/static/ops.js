// The theme, and a word when the service no longer answers. The rest is htmx's: pages work without either.
"use strict";

(function () {
  const root = document.documentElement;
  const themes = ["", "light", "dark"];
  let theme = "";
  try { theme = localStorage.getItem("theme") || ""; } catch { /* not allowed here: the system's */ }

  function show() {
    if (theme) root.dataset.theme = theme; else delete root.dataset.theme;
    const button = document.getElementById("theme");
    if (button) button.textContent = "Theme: " + (theme || "system");
  }

  show(); // before the first paint

  document.addEventListener("DOMContentLoaded", function () {
    show();
    const button = document.getElementById("theme");
    if (button) button.addEventListener("click", function () {
      theme = themes[(themes.indexOf(theme) + 1) % themes.length];
      try { localStorage.setItem("theme", theme); } catch { /* as above */ }
      show();
    });

    const lost = document.getElementById("lost");
    const say = function (gone) { lost.hidden = !gone; };
    document.body.addEventListener("htmx:sendError", function () { say(true); });
    document.body.addEventListener("htmx:responseError", function (event) { say(event.detail.xhr.status >= 500); });
    document.body.addEventListener("htmx:afterRequest", function (event) { if (event.detail.successful) say(false); });
    document.body.addEventListener("htmx:sseMessage", function () { say(false); });

    // Copying needs https or this machine: without it, a click on a command selects it.
    if (navigator.clipboard) root.classList.add("copies");
    document.addEventListener("click", function (event) {
      const button = event.target.closest("button.copy");
      if (!button || !navigator.clipboard) return;
      const line = button.parentElement.querySelector(".command").textContent;
      navigator.clipboard.writeText(line).then(function () { button.textContent = "Copied"; });
    });

    // One form at a time; Escape closes it.
    document.addEventListener("toggle", function (event) {
      const opened = event.target;
      if (!(opened.matches && opened.matches("details.action") && opened.open)) return;
      document.querySelectorAll("details.action[open]").forEach(function (other) { if (other !== opened) other.open = false; });
      const first = opened.querySelector("input:not([type=hidden]), select");
      if (first) first.focus();
    }, true);
    document.addEventListener("keydown", function (event) {
      // A slash goes to the search box, where there is one and nothing is being written.
      const box = document.querySelector("input[data-slash]");
      if (event.key === "/" && box && !event.ctrlKey && !event.metaKey && !event.altKey && !event.target.closest("input, textarea, select")) {
        event.preventDefault();
        box.focus();
        box.select();
      }
      if (event.key !== "Escape") return;
      const opened = document.querySelector("details.action[open]");
      if (opened) { opened.open = false; opened.querySelector("summary").focus(); }
    });
  });
})();
