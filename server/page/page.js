"use strict";
(() => {
  const period = Number(document.body.dataset.refresh);
  const pause = document.getElementById("pause");
  const line = document.getElementById("fresh");
  let paused = false;

  const late = (why) => {
    line.parentElement.classList.add("late");
    const since = document.getElementById("asof");
    line.replaceChildren("No answer (" + why + "). As of ", since);
  };

  // What was opened stays open, and what had the focus keeps it.
  const put = (next) => {
    const now = document.getElementById("state");
    const held = now.contains(document.activeElement) && document.activeElement.closest("[id]");
    for (const d of now.querySelectorAll("details[open]")) {
      next.querySelector("#" + d.id)?.setAttribute("open", "");
    }
    const content = next.getElementById("state");
    if (now.innerHTML !== content.innerHTML) {
      now.replaceChildren(...content.childNodes);
    }
    if (held && held !== now) {
      (document.querySelector("#" + held.id + " > summary") || document.getElementById(held.id))?.focus();
    }
    line.parentElement.classList.remove("late");
    line.replaceChildren("As of ", next.getElementById("asof"));
    document.title = next.title;
  };

  const refresh = async () => {
    if (paused || document.hidden) return;
    try {
      const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(period + 5000) });
      if (!answer.ok) throw new Error(answer.status);
      const text = await answer.text();
      if (!paused) put(new DOMParser().parseFromString(text, "text/html"));
    } catch (e) {
      late(e.name === "TimeoutError" ? "too late" : e.message);
    }
  };

  pause.hidden = false;
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    if (!paused) refresh();
  });
  document.addEventListener("visibilitychange", refresh);
  const loop = async () => {
    await refresh();
    setTimeout(loop, period);
  };
  setTimeout(loop, period);
})();
