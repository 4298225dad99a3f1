// What the page asks the server for.

export const features = { files: true, corrections: true, details: true };

let key = "";

export function useKey(given) {
  key = given;
}

async function send(path, body) {
  const form = body instanceof FormData;
  if (form) body.append("api_key", key);
  const answer = await fetch(path, body && {
    method: "POST",
    body: form ? body : JSON.stringify({ ...body, api_key: key }),
    headers: form ? {} : { "Content-Type": "application/json" },
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  return found;
}

export async function settings() {
  const [languages, about] = await Promise.all([send("languages"), send("frontend/settings")]);
  const { charLimit, keyRequired, suggestions, supportedFilesFormat } = about;
  features.corrections = suggestions;
  return { languages, charLimit, keyRequired, fileEndings: supportedFilesFormat };
}

export function translate({ text, source, target, alternatives }) {
  return send("translate", { q: text, source, target, alternatives, details: true });
}

export async function translateFile({ file, source, target }) {
  const body = new FormData();
  for (const [name, value] of Object.entries({ file, source, target })) body.append(name, value);
  return (await send("translate_file", body)).translatedFileUrl;
}

export function correct({ text, translation, source, target }) {
  return send("suggest", { q: text, s: translation, source, target });
}

export function learning({ source, target }) {
  return send("learning", { source, target });
}

export function undo({ source, target }) {
  return send("rollback", { source, target });
}
