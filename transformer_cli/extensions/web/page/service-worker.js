// Makes the page work offline: it caches the page. worker.js caches the model and ONNX Runtime.

const directory = new URL("./", location).href;

addEventListener("install", (event) => event.waitUntil(store()));
addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request;
  const isPage = url.startsWith(directory) && (mode === "navigate" || !url.includes("?"));
  if (method === "GET" && isPage) event.respondWith(answer(event.request));
});

async function store() {
  const { page } = await (await fetch("web.json", { cache: "no-cache" })).json();
  await (await caches.open(directory)).addAll(page);
}

// The network comes first, so that a new version of the page appears at once.
async function answer(request) {
  const cache = await caches.open(directory);
  try {
    const response = await fetch(request, { cache: "no-cache" });
    if (response.ok) await cache.put(request, response.clone());
    return response;
  } catch (error) {
    return (await cache.match(request, { ignoreSearch: true })) ?? Promise.reject(error);
  }
}
