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

export const translate = ({ text, ...given }) =>
  send("translate", { q: text, ...given, details: true });

export async function translateFile(given) {
  const body = new FormData();
  for (const [name, value] of Object.entries(given)) body.append(name, value);
  const { translatedFileUrl } = await send("translate_file", body);
  return translatedFileUrl.replace(/.*(?=download_file)/, ""); // a proxy may have another address
}

export const correct = ({ text, translation, ...pair }) =>
  send("suggest", { q: text, s: translation, ...pair });
export const learning = (pair) => send("learning", pair);
export const undo = (pair) => send("rollback", pair);
