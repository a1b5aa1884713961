// element returns an element with attributes. Strings become text, never HTML.
export function element(name, attributes = {}, ...children) {
  const e = document.createElement(name)
  for (const [key, value] of Object.entries(attributes)) {
    if (value === true) e.setAttribute(key, '')
    else if (value !== false && value !== undefined) e.setAttribute(key, value)
  }
  e.append(...children.filter((c) => c !== undefined && c !== null && c !== ''))
  return e
}
