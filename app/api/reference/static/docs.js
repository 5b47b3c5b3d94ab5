// Show the API's description, with the group of the first calls open.
"use strict";

const dark = window.matchMedia("(prefers-color-scheme: dark)");

function applyTheme() {
  document.documentElement.classList.toggle("dark-mode", dark.matches);
}

applyTheme();
dark.addEventListener("change", applyTheme);

window.addEventListener("load", function () {
  const ui = SwaggerUIBundle({
    url: "openapi.json",
    dom_id: "#reference",
    deepLinking: true,
    docExpansion: "none",
    defaultModelsExpandDepth: 0,
    displayRequestDuration: true,
    filter: true,
    syntaxHighlight: { theme: "obsidian" },
    validatorUrl: null, // no badge from another site
    onComplete: function () {
      if (!window.location.hash) {
        ui.layoutActions.show(["operations-tag", "Start here"], true);
      }
    },
  });
});
