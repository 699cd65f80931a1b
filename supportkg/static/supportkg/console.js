// The console's own script: small comforts; every page works without it.
// Nothing here makes HTML out of text.
"use strict";

// Ctrl+Enter (or Cmd+Enter) in the question sends it.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)
      && event.target.matches("form.ask textarea")) {
    event.preventDefault();
    const button = event.target.form.querySelector("button[type=submit]");
    if (!button.disabled) event.target.form.requestSubmit(button);
  }
});

// An example goes into the box, so that it can be changed before it is asked.
document.addEventListener("click", (event) => {
  const example = event.target.closest("a[data-question]");
  const box = document.getElementById("question");
  if (!example || !box || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  box.value = example.dataset.question;
  box.focus();
});

// While an answer is made: say so, also to screen readers; the text comes and goes
// because a status region speaks only when it changes.
document.addEventListener("htmx:before:request", (event) => {
  const form = event.target.closest?.("form.ask");
  if (!form) return;
  form.classList.add("waiting");
  const text = form.querySelector(".busytext");
  text.textContent = text.dataset.busy;
  form.querySelector(".failure").hidden = true;
});
document.addEventListener("htmx:finally:request", () => {
  for (const form of document.querySelectorAll("form.ask.waiting")) {
    form.classList.remove("waiting");
    form.querySelector(".busytext").textContent = "";
  }
});
document.addEventListener("htmx:error", () => {
  const failure = document.querySelector("form.ask .failure");
  if (!failure) return;
  failure.textContent = "The server did not answer. Your question is still here; try again.";
  failure.hidden = false;
});

// After a swap the reader goes on at what is new.
document.addEventListener("htmx:after:swap", () => {
  const next = document.querySelector("[aria-describedby~=question-wrong], #answer-heading, #main h1");
  next?.focus({preventScroll: false});
});
