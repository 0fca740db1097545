// Making elements. Whatever a model or a person wrote goes in as text, never as markup.

/** An element with properties ("class", "data-x" and "aria-x" as attributes, "on…" as listeners) and children. */
export function make(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && !key.includes("-") && key !== "list") made[key] = value;
    else made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat().filter((one) => one !== null && one !== undefined && one !== false));
  return made;
}

/** Words of the room with their gaps filled. */
export function speaker(words) {
  return (key, values = {}) =>
    words[key].replace(/\{(\w+)\}/g, (whole, name) => (name in values ? String(values[name]) : whole));
}

/** The name of a label's value, as the interface says it. */
export function naming(labels) {
  const names = new Map();
  for (const [label, one] of Object.entries(labels)) {
    for (const value of one.values) names.set(`${label} ${value.id}`, value);
  }
  return (label, id) => names.get(`${label} ${id}`) ?? { id, name: String(id), about: "", sentiments: [] };
}

/** A menu of a label's values, with a first entry for none of them. */
export function menu(label, labels, none, chosen, properties = {}) {
  const select = make("select", properties);
  select.append(make("option", { value: "" }, none));
  for (const value of labels[label].values) {
    select.append(make("option", { value: String(value.id), title: value.about }, value.name));
  }
  select.value = chosen === undefined || chosen === null ? "" : String(chosen);
  return select;
}
