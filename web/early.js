// What does not wait for the modules: it asks which nodes there are, and has the files of the first picture fetched. It is no module:
// those run only after the page was parsed. It refuses to choose the view: a wrong guess costs bytes, no more.

// It stands before the style sheet, for which scripts wait.

(() => {
  /** As in ask.js. */
  const ANSWER_MS_MAX = 60_000;
  const { node, nodes } = document.currentScript.dataset;

  const prepare = (files) => {
    for (const href of files.split(" ")) {
      document.head.append(Object.assign(document.createElement("link"), { rel: "modulepreload", href }));
    }
  };

  async function asked() {
    const answer = await fetch("khz/v1/nodes?brief=1", { cache: "no-store", signal: AbortSignal.timeout(ANSWER_MS_MAX) });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    return answer.json();
  }

  const hash = new URLSearchParams(location.hash.slice(1));
  const isOther = ["view", "query", "alerts"].some((name) => hash.has(name));
  const found = asked();
  if (hash.has("node")) prepare(node);
  else if (!isOther) found.then(({ nodes: names }) => prepare(names.length > 1 ? nodes : node), () => {});
  // Whoever takes it says what went wrong.
  found.catch(() => {});
  window.khzFound = found;
})();
