// Hides and filters what is on the page already; without it everything is shown.
"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];

  for (const key of all(".keys button")) {
    key.disabled = false;
    key.addEventListener("click", () => {
      const shown = key.getAttribute("aria-pressed") !== "true";
      key.setAttribute("aria-pressed", shown);
      const parts = all(`[data-series="${key.dataset.key}"]`, key.closest("figure"));
      for (const part of parts) part.classList.toggle("off", !shown);
    });
  }

  const form = document.querySelector(".filters");
  if (form) {
    const fields = all("select", form).map((select) => select.name);
    const items = all("[data-data]");
    const update = () => {
      const fits = (item) => fields.every((field) => {
        const wanted = form.elements[field].value, own = item.dataset[field];
        return wanted === "" || own === undefined || own === wanted;
      });
      for (const item of items) item.hidden = !fits(item);
      for (const section of all("section")) {
        const own = all("[data-data]", section);
        section.hidden = own.length > 0 && own.every((item) => item.hidden);
      }
      const plots = items.filter((item) => item.matches("figure"));
      const shown = plots.filter((item) => !item.hidden).length;
      form.querySelector("output").value = `${shown} of ${plots.length} plots shown`;
    };
    form.hidden = false;
    form.addEventListener("change", update);
    form.addEventListener("submit", (event) => event.preventDefault());
    update();
  }

  for (const picker of all("[data-pick]")) {
    const choices = all("details", document.getElementById(picker.dataset.pick));
    const select = picker.querySelector("select");
    for (const [i, choice] of choices.entries()) {
      select.add(new Option(choice.querySelector("summary").textContent, i));
    }
    const update = () => choices.forEach((choice, i) => {
      choice.open = String(i) === select.value;
      choice.classList.toggle("off", !choice.open);
    });
    picker.hidden = choices.length < 2;
    select.addEventListener("change", update);
    update();
  }

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  const words = new Map();
  for (const title of all("svg.chart .point > title")) {
    words.set(title.parentNode, title.textContent);
    title.remove(); // the browser's own tip would show as well
  }
  let near = null;
  const leave = () => {
    near?.classList.remove("near");
    near = null;
    tip.hidden = true;
  };
  for (const chart of all("svg.chart")) {
    chart.addEventListener("pointerleave", leave);
    chart.addEventListener("pointermove", (event) => {
      let best = null, least = 30;
      for (const point of all("g:not(.off) > .point", chart)) {
        const box = point.getBoundingClientRect();
        const away = Math.hypot(box.x + box.width / 2 - event.clientX, box.y + box.height / 2 - event.clientY);
        if (away < least) [best, least] = [point, away];
      }
      leave();
      if (!best) return;
      near = best;
      near.classList.add("near");
      tip.textContent = words.get(best);
      tip.hidden = false;
      const box = best.getBoundingClientRect();
      const x = Math.min(box.x + 14, document.documentElement.clientWidth - tip.offsetWidth - 4);
      const y = box.y - tip.offsetHeight - 8;
      tip.style.left = `${Math.max(4, x)}px`;
      tip.style.top = `${y < 4 ? box.bottom + 8 : y}px`;
    });
  }
})();
