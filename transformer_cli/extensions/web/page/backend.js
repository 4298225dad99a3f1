// What the page asks the worker for.

export const features = { files: false, corrections: false, details: false };

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const waiting = []; // requests without an answer
let report = () => {};

worker.onmessage = ({ data: { id, result, error, progress } }) => {
  if (progress) report(...progress);
  else if (error) waiting[id].reject(new Error(error));
  else waiting[id].resolve(result);
  delete waiting[id];
};
worker.onerror = () => {
  waiting.forEach(({ reject }) => reject(new Error("This browser is too old for this page.")));
};
// Plain HTTP from another machine allows no service worker; the page then needs the network.
navigator.serviceWorker?.register("service-worker.js").catch(() => {});

function ask(name, argument) {
  return new Promise((resolve, reject) => {
    worker.postMessage({ id: waiting.push({ resolve, reject }) - 1, name, argument });
  });
}

// Loads the model. `onProgress` gets the number of bytes loaded so far, and of all bytes.
export function settings({ onProgress = report } = {}) {
  report = onProgress;
  return ask("settings");
}

export const translate = (request) => ask("translate", request);
