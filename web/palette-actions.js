// What the palette can do with the page that is shown: it presses the page's own buttons, so that there is one way to do a thing. It
// refuses what the page does not offer now.

/** A button is an action if it has a label for the palette, and can be pressed. */
const BUTTONS = "[data-palette]";
/** Buttons whose words are short, because their place says the rest. */
const PLACED = [
  ["[data-rate]", (button) => `Rate ${button.dataset.rate} Hz`, "rows a second"],
  ["[data-tier]", (button) => `Window ${button.textContent}`, "how much of now is shown"],
];

const isOffered = (button) => !button.disabled && button.closest("[hidden]") === null;

/** [{label, help, run}] */
export function actions(page) {
  const found = [];
  const press = (label, help, button) => isOffered(button) && found.push({ label, help, run: () => button.click() });
  for (const button of document.querySelectorAll(BUTTONS)) press(button.dataset.palette, button.getAttribute("aria-label") ?? button.textContent, button);
  for (const [selector, label, help] of PLACED) for (const button of document.querySelectorAll(selector)) press(label(button), help, button);
  found.push(...comparisons(), { label: "Copy link", help: "the address of what is shown", run: () => copyLink(page) });
  found.push({ label: "Keys and gestures", help: "the full list", run: () => document.querySelector("#keys").showModal() });
  return found;
}

/** The times with which a window of a node's page can be compared. */
function comparisons() {
  const list = document.querySelector("#compared");
  if (!list || !isOffered(list)) return [];
  const choose = (value) => {
    list.value = value;
    list.dispatchEvent(new Event("change"));
  };
  return [...list.options].map(({ value, text }) => ({ label: value ? `Compare with ${text}` : "Compare with nothing", help: "dashed lines over the window", run: () => choose(value) }));
}

async function copyLink(page) {
  const isCopied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  page.notice(isCopied ? "The link is copied." : `This browser does not let the page copy. The link is: ${location.href}`);
}
