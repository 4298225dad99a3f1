// Makes the page work offline: it caches the page. worker.js caches the model and ONNX Runtime.

const directory = new URL("./", location).href;

addEventListener("install", (event) => event.waitUntil(store()));
addEventListener("fetch", (event) => {
  const { method, mode, url } = event.request;
  const [name, query] = url.slice(directory.length).split("?");
  const isOurs = url.startsWith(directory) && !name.includes("/") && name !== "web.json";
  const isWanted = method === "GET" && isOurs && (mode === "navigate" || !query);
  if (isWanted) event.respondWith(answer(event.request));
});

async function store() {
  const { page } = await (await fetch("web.json", { cache: "no-cache" })).json();
  await (await caches.open(directory)).addAll(page);
}

// The network comes first, so that a new version of the page appears at once.
async function answer(request) {
  const cache = await caches.open(directory);
  const address = request.url.replace(/[?#].*/, "");
  try {
    const response = await fetch(request, { cache: "no-cache" });
    if (response.status === 200) await cache.put(address, response.clone()).catch(() => {});
    return response;
  } catch (error) {
    return (await cache.match(address)) ?? Promise.reject(error);
  }
}
