// The page works without this script except for the charts and the theme button.
(() => {
  "use strict";

  const root = document.documentElement;
  const button = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  const show = (theme) => {
    root.dataset.theme = theme;
    button.textContent = `Theme: ${theme}`;
  };
  // Storage may be forbidden for files; the choice then lasts as long as the page.
  let kept = null;
  try {
    kept = localStorage.getItem("tuner-theme");
  } catch {}
  show(themes.includes(kept) ? kept : "auto");
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme) + 1) % themes.length];
    show(next);
    try {
      localStorage.setItem("tuner-theme", next);
    } catch {}
  });

  // A printed page shows what is folded on the screen.
  const folded = () => document.querySelectorAll("details:not([open])");
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...folded()];
    for (const details of opened) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of opened) details.open = false;
  });

  const { config, charts } = JSON.parse(document.getElementById("chart-data").textContent);
  const options = {
    mode: "vega-lite",
    renderer: "svg",
    actions: false,
    // Vega's expressions are interpreted, so that the page needs no eval.
    ast: true,
    config,
    defaultStyle: false,
    tooltip: { disableDefaultStyle: true, theme: "page" },
  };
  const drawn = Object.entries(charts).map(([name, spec]) => {
    const place = document.getElementById(`chart-${name}`);
    return vegaEmbed(place, spec, options).catch((error) => {
      place.textContent = `This chart could not be drawn: ${error.message}`;
      console.error(error);
    });
  });
  Promise.all(drawn).then(() => {
    root.dataset.charts = "drawn";
  });
})();
