// The formulas of reticent.privacy.planning for one example per person and task, in float64; a test compares them.
"use strict";
(() => {
  const facts = JSON.parse(document.getElementById("facts").dataset.facts);
  const form = document.getElementById("controls");
  const LOG_ROOT = 0.5 * Math.log(2 * Math.PI), SCALE = 2 ** 20, TERMS = 160;

  // --- the normal law: a series near 0, a continued fraction in the tail
  const mills = (x) => {
    let below = x;
    for (let k = TERMS; k > 0; k--) below = x + k / below;
    return 1 / below;
  };
  const tail = (x) => {
    if (x >= 3) return Math.exp(-x * x / 2 - LOG_ROOT) * mills(x);
    let term = x, sum = x;
    for (let k = 3; Math.abs(term) > 1e-17 * Math.abs(sum); k += 2) sum += term *= x * x / k;
    return 0.5 - Math.exp(-x * x / 2 - LOG_ROOT) * sum;
  };
  const cdf = (x) => x < 0 ? tail(-x) : x > 8.3 ? 1 : 1 - tail(x);
  const logCdf = (x) => x >= 0 ? Math.log1p(-tail(x)) : x > -3 ? Math.log(tail(-x)) : -x * x / 2 - LOG_ROOT + Math.log(mills(-x));
  const halved = (low, high, above) => {
    for (let i = 0; i < 200 && high - low > 1e-15 * Math.abs(high); i++) {
      const middle = (low + high) / 2;
      if (above(middle)) high = middle; else low = middle;
    }
    return (low + high) / 2;
  };
  const quantile = (p) => halved(-40, 0, (x) => logCdf(x) > Math.log(p));

  // --- noise, threshold and weight of counts
  const logDelta = (mu, epsilon) => {
    const upper = logCdf(mu / 2 - epsilon / mu), lower = epsilon + logCdf(-mu / 2 - epsilon / mu);
    return upper + Math.log(-Math.expm1(Math.min(lower - upper, -1e-300)));
  };
  const largestMu = (epsilon, delta) =>
    Math.exp(halved(Math.log(1e-6), Math.log(1e3), (x) => logDelta(Math.exp(x), epsilon) > Math.log(delta)));
  const sigmaOf = ({ epsilon, each }, delta) => Math.sqrt(each) / largestMu(epsilon, delta) * (1 + 1e-12);
  const spreadOf = (sigma, weight) => sigma * SCALE / Math.floor(Math.sqrt(weight) * SCALE);
  const exposureOf = ({ delta, each }) => each === 1 ? delta : delta * facts.kept / each;
  const weights = new Map();
  const weightOf = (given) => {
    const key = [given.epsilon, given.delta, given.each].join();
    if (weights.has(key)) return weights.get(key);
    const sigma = sigmaOf(given, given.delta), z = quantile(exposureOf(given));
    let best = 0, most = -1;
    for (let hundredths = 2; hundredths <= 60; hundredths++) {
      const weight = hundredths / 100, threshold = (1 - spreadOf(sigma, weight) * z) / sigma;
      let sum = 0;
      for (let i = 1; i <= 1000; i++) {
        const size = i * 6 * facts.half / 1000, cube = (Math.sqrt(1 - weight) * size / facts.half) ** 3;
        sum += cdf(Math.sqrt(weight) * (size - threshold)) * cube / (1 + cube);
      }
      if (sum > most) [best, most] = [weight, sum];
    }
    weights.set(key, best);
    return best;
  };
  const planOf = (given) => {
    const weight = weightOf(given), alone = sigmaOf(given, given.delta);
    const sigma = given.each === 1 ? alone : sigmaOf(given, given.delta * (1 - facts.kept));
    const spread = spreadOf(sigma, weight), threshold = 1 - spread * quantile(exposureOf(given));
    const chance = (size) => cdf((size - threshold) / spread);
    const smallest = (p) => {
      let size = Math.max(1, Math.floor(threshold + spread * (p > 0.5 ? -quantile(1 - p) : 0)) - 2);
      while (chance(size) < p) size++;
      return size;
    };
    return { weight, alone, noise: sigma / Math.sqrt(1 - weight), threshold, chance, smallest };
  };

  // --- accuracy on a data set of similar shape
  const between = (grid, value) => {
    if (value <= grid[0]) return [0, 0];
    let i = 0;
    while (i < grid.length - 2 && grid[i + 1] <= value) i++;
    return [i, Math.min(1, Math.log(value / grid[i]) / Math.log(grid[i + 1] / grid[i]))];
  };
  const accuracy = (curve, size, noise) => {
    const [i, a] = between(curve.sizes, size), [j, b] = between(curve.signals, size / noise);
    const row = (r) => (1 - b) * r[j] + b * r[j + 1];
    return (1 - a) * row(curve.accuracy[i]) + a * row(curve.accuracy[i + 1]);
  };

  // --- numbers as text, as in plan_page.py
  const up = (x) => (Math.ceil(x * 1e4) / 1e4).toFixed(4);
  const share = (x) => x < 1e-4 ? "< 0.0001" : x > 1 - 1e-4 ? "> 0.9999" : x.toFixed(4);
  const exact = (x) => x >= 1e-4 ? String(x) : x.toExponential().replace(/e-(\d)$/, "e-0$1");
  const percent = (x) => `${(100 * x).toFixed(0)} %`;
  const whole = (x) => x.toLocaleString("en-US", { maximumFractionDigits: 0 });

  // --- controls
  const ranges = Object.entries(facts.controls);
  const field = (name) => form.elements[name], slider = (name) => form.elements[`${name}-slider`];
  const clean = (x, spec) => {
    const inside = Math.min(spec.most, Math.max(spec.least, x));
    return spec.whole ? Math.round(inside) : Number(inside.toPrecision(3));
  };
  const place = (x, spec) => 1000 * Math.log(x / spec.least) / Math.log(spec.most / spec.least);
  const value = (at, spec) => clean(spec.least * (spec.most / spec.least) ** (at / 1000), spec);
  const read = () => Object.fromEntries(ranges.map(([name, spec]) => {
    const x = Number(field(name).value);
    return [name, Number.isFinite(x) && x > 0 ? Math.min(spec.most, Math.max(spec.least, spec.whole ? Math.round(x) : x)) : spec.value];
  }));
  const show = (id, text) => { document.getElementById(id).textContent = text; };

  // --- figures
  const line = (points) => points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  const across = (x, low, high) => 50 + 330 * Math.log(x / low) / Math.log(high / low), upwards = (y) => 200 - 180 * y;
  const steps = (low, high, n) => Array.from({ length: n + 1 }, (_, i) => low * (high / low) ** (i / n));
  const set = (id, name, to) => document.getElementById(id).setAttribute(name, to);

  const update = () => {
    const given = read();
    given.each = Math.min(given.each, given.tasks);
    const plan = planOf(given), chance = plan.chance(given.size);
    const known = -Math.expm1(given.tasks * Math.log1p(-Math.min(chance, 1 - 1e-16)));
    const curve = facts.curves.find((one) => one.data === form.elements.like.value);
    show("release", share(chance));
    show("known", share(known));
    show("noise", up(plan.noise));
    show("public-noise", up(plan.alone));
    show("price", `+${(100 * (plan.noise / plan.alone - 1)).toFixed(2)} %`);
    show("threshold", plan.threshold.toFixed(1));
    show("half", whole(plan.smallest(0.5)));
    show("sure", whole(plan.smallest(0.99)));
    show("weight", plan.weight.toFixed(2));
    show("exposed", (given.persons * given.delta).toPrecision(3));
    show("accuracy-public", percent(accuracy(curve, given.size, plan.alone)));
    show("accuracy-released", percent(chance * accuracy(curve, given.size, plan.noise)));
    show("command", `reticent init model/ --epsilon ${exact(given.epsilon)} --delta ${exact(given.delta)} --tasks-per-person ${given.each} --released`);
    document.getElementById("too-large").hidden = given.delta * given.persons < 1;
    for (const [name, spec] of ranges) slider(name).value = place(given[name], spec);
    const { least, most } = facts.controls.size;
    set("release-line", "d", line(steps(least, most, 120).map((n) => [across(n, least, most), upwards(plan.chance(n))])));
    set("release-here", "cx", across(given.size, least, most));
    set("release-here", "cy", upwards(chance));
    const ends = facts.controls.epsilon, budgets = steps(ends.least, ends.most, 32);
    const shown = budgets.map((epsilon) => {
      const other = planOf({ ...given, epsilon });
      const released = other.chance(given.size) * accuracy(curve, given.size, other.noise);
      return [across(epsilon, ends.least, ends.most), accuracy(curve, given.size, other.alone), released];
    });
    set("public-line", "d", line(shown.map(([x, y]) => [x, upwards(y)])));
    set("released-line", "d", line(shown.map(([x, , y]) => [x, upwards(y)])));
    set("accuracy-here", "cx", across(given.epsilon, ends.least, ends.most));
    set("accuracy-here", "cy", upwards(chance * accuracy(curve, given.size, plan.noise)));
    const words = new URLSearchParams([...ranges.map(([name]) => [name, given[name]]), ["like", curve.data]]);
    try { history.replaceState(null, "", `#${words}`); } catch { /* a page that was saved elsewhere may not */ }
  };

  let waiting = false;
  const later = () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; update(); });
  };
  for (const [name, spec] of ranges) {
    slider(name).addEventListener("input", () => { field(name).value = value(Number(slider(name).value), spec); later(); });
    field(name).addEventListener("input", later);
  }
  form.elements.like.addEventListener("change", later);
  form.addEventListener("submit", (event) => event.preventDefault());
  const asked = new URLSearchParams(location.hash.slice(1));
  for (const [name, spec] of ranges) if (Number(asked.get(name)) > 0) field(name).value = clean(Number(asked.get(name)), spec);
  if (facts.curves.some((one) => one.data === asked.get("like"))) form.elements.like.value = asked.get("like");
  form.hidden = false;
  for (const figure of document.querySelectorAll("figure.plan")) figure.hidden = false;
  update();
})();
