// Elements of the page, and foreign text in them. It refuses markup: text is text.

/** Foreign text without what cannot be seen or turns the direction of writing: a name must not look like another one. */
export const visible = (text) =>
  String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);

/** One element with classes, attributes and children. */
export function element(tag, { classes = "", text, ...attributes } = {}, ...children) {
  const node = document.createElement(tag);
  if (classes) node.className = classes;
  if (text !== undefined) node.textContent = visible(text);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, visible(value));
  node.append(...children);
  return node;
}
