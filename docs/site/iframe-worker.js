// The search runs in a Worker, which browsers refuse to a page that is a file: there its script runs in a frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.window = frame.contentWindow;
      this.window.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      this.ready = new Promise(resolve => {
        const script = frame.contentDocument.createElement("script");
        script.src = url;
        script.onload = resolve;
        frame.contentDocument.body.append(script);
      });
    }

    postMessage(data) {
      this.ready.then(() => this.window.dispatchEvent(new MessageEvent("message", {data})));
    }

    terminate() {
      this.window.frameElement.remove();
    }
  };
}
