// What the page asks the worker for.

export const features = { files: false, corrections: false, details: false };

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const requests = []; // each request's promise
let report = null;
let failure = null;

worker.onmessage = ({ data: { id, result, error, progress } }) => {
  if (progress) report?.(...progress);
  else if (error) requests[id].reject(new Error(error));
  else requests[id].resolve(result);
  if (!progress) report = null; // after a failure, other files still load
};
worker.onerror = () => {
  failure = new Error("Cannot run worker.js: load this page again, or use a newer browser.");
  requests.forEach(({ reject }) => reject(failure));
};
// Plain HTTP from another machine allows no service worker; the page then needs the network.
navigator.serviceWorker?.register("service-worker.js").catch(() => {});

function ask(name, argument) {
  return new Promise((resolve, reject) => {
    if (failure) reject(failure);
    worker.postMessage({ id: requests.push({ resolve, reject }) - 1, name, argument });
  });
}

// Loads the model. `onProgress` gets the number of bytes loaded so far, and of all bytes.
export function settings({ onProgress = null } = {}) {
  report = onProgress;
  return ask("settings");
}

export const translate = (request) => ask("translate", request);
