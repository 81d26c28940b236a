// The search runs in a worker, and a browser starts none from a file: there a hidden frame stands in for it. In place
// of https://github.com/squidfunk/iframe-worker, which the plugin `offline` would fetch from elsewhere.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    #frame = document.createElement("iframe");
    #begun;

    constructor(url) {
      super();
      this.#frame.hidden = true;
      document.body.append(this.#frame);
      const inside = this.#frame.contentWindow;
      inside.postMessage = (data) => this.#tell(data);
      inside.importScripts = (...urls) => urls.reduce((before, each) => before.then(() => script(inside, each)), Promise.resolve());
      this.#begun = script(inside, url);
    }

    /** To whom works in the frame. */
    postMessage(data) {
      this.#begun.then(() => this.#frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.#frame.remove();
    }

    #tell(data) {
      const event = new MessageEvent("message", { data });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }
  };

  function script(inside, src) {
    return new Promise((loaded, failed) => {
      const node = inside.document.createElement("script");
      Object.assign(node, { src: new URL(src, location), onload: loaded, onerror: failed });
      inside.document.body.append(node);
    });
  }
}
