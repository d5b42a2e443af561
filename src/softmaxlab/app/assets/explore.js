// What the browser does by itself: theme, address bar, dragging on the simplex, playing through time.
(function () {
  "use strict";
  const skip = () => window.dash_clientside.no_update;
  const root = document.documentElement;
  const CORNERS = [[0, 0], [1, 0], [0.5, Math.sqrt(0.75)]];
  const LEAST = 0.002; // weight: the scores of the page are at most 4
  const FRAME = 60; // milliseconds between two places that are sent while dragging

  const remembered = () => { try { return localStorage.getItem("softmaxlab-theme"); } catch { return null; } };
  const dark = () => window.matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = remembered() || (dark() ? "dark" : "light");

  const barycentric = (x, y) => {
    const c = y / CORNERS[2][1];
    const b = x - 0.5 * c;
    const s = [1 - b - c, b, c].map((w) => Math.max(w, LEAST));
    const total = s[0] + s[1] + s[2];
    return s.map((w) => w / total);
  };

  window.dash_clientside = Object.assign({}, window.dash_clientside, {
    explore: {
      theme(clicks) {
        if (clicks) {
          root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
          try { localStorage.setItem("softmaxlab-theme", root.dataset.theme); } catch { /* a private window */ }
        }
        return root.dataset.theme;
      },
      // the address bar is the permalink at all times; replacing it does not load the page anew
      address(query) {
        if (!query) return skip();
        const path = window.location.pathname === "/" ? "/polarization" : window.location.pathname;
        document.querySelectorAll("nav a").forEach((a) => a.classList.toggle("here", a.getAttribute("href") === path));
        window.history.replaceState(window.history.state, "", path + query);
        return window.location.origin + path + query;
      },
      scoresOfWeights(s) {
        if (!s) return [skip(), skip(), skip()];
        const logs = s.map(Math.log);
        const mean = (logs[0] + logs[1] + logs[2]) / 3;
        return logs.map((x) => Math.round(100 * Math.min(4, Math.max(-4, x - mean))) / 100);
      },
      playOrPause(clicks, ticks, at, disabled) {
        const clicked = window.dash_clientside.callback_context.triggered_id === "specialization-play";
        if (clicked) {
          const starts = disabled;
          return [!starts, starts ? "❚❚ Pause" : "▶ Play", starts && at >= 100 ? 0 : skip()];
        }
        if (disabled) return [skip(), skip(), skip()];
        if (at >= 100) return [true, "▶ Play", skip()];
        return [skip(), skip(), at + 1];
      },
      moveTo(at, track) {
        if (!track || at === null) return skip();
        const k = Math.round(((track.tau.length - 1) * at) / 100);
        const marked = (id) => {
          const plot = document.querySelector("#" + id + " .js-plotly-plot");
          const found = plot && plot.data ? plot.data.map((d, i) => [d.meta, i]).filter((d) => d[0]) : [];
          return [plot, found.map((d) => d[1])];
        };
        const [plane, heads] = marked("specialization-plane");
        const [loss, now] = marked("specialization-loss");
        if (heads.length === track.m[k].length) {
          window.Plotly.restyle(plane, { x: track.m[k].map((h) => [h[0]]), y: track.m[k].map((h) => [h[1]]) }, heads);
        }
        if (now.length) window.Plotly.restyle(loss, { x: [[track.tau[k]]], y: [[track.loss[k]]] }, now);
        return skip();
      },
      linkAt(at, paused, query) {
        if (!query || paused === false || at === null) return skip();
        return query.replace(/([?&]at=)[^&]*/, "$1" + at);
      },
    },
  });

  // The white dot of the simplex follows the pointer; the run follows the dot.
  let dragged = null;
  let sent = 0;
  const weightsAt = (plot, event) => {
    const box = plot.querySelector(".nsewdrag").getBoundingClientRect();
    const { xaxis, yaxis } = plot._fullLayout;
    return barycentric(xaxis.p2d(event.clientX - box.left), yaxis.p2d(event.clientY - box.top));
  };
  const move = (event, last) => {
    const s = weightsAt(dragged, event);
    const x = s[1] + 0.5 * s[2];
    const y = CORNERS[2][1] * s[2];
    const dot = dragged.data.findIndex((d) => d.name === "start");
    window.Plotly.restyle(dragged, { x: [[x]], y: [[y]] }, [dot]);
    if (last || event.timeStamp - sent > FRAME) {
      sent = event.timeStamp;
      window.dash_clientside.set_props("simplex-dragged", { data: s });
    }
  };
  document.addEventListener("pointerdown", (event) => {
    const plot = event.target.closest && event.target.closest(".drag-simplex .js-plotly-plot");
    const softmax = plot && plot.layout && plot.layout.meta === "draggable";
    if (!softmax) return;
    dragged = plot;
    event.preventDefault();
    move(event, true);
  }, true);
  document.addEventListener("pointermove", (event) => { if (dragged) move(event, false); });
  document.addEventListener("pointerup", (event) => { if (dragged) { move(event, true); dragged = null; } });

  // Sliders and menus say what they are to a screen reader.
  const name = (node) => {
    for (const box of node.querySelectorAll("[data-label]")) {
      for (const part of box.querySelectorAll('[role="slider"], input, button')) {
        if (!part.getAttribute("aria-label")) part.setAttribute("aria-label", box.dataset.label);
      }
    }
  };
  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    setTimeout(() => { waiting = false; name(document); }, 200);
  };
  new MutationObserver(later).observe(document, { childList: true, subtree: true });
})();
