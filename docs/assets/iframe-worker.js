// From a disk, browsers start no Worker, and the search of the site needs one. Its script then runs in an invisible frame.
// The name IFrameWorker is what the search of Material for MkDocs looks for.
if (location.protocol === "file:") {
  class IFrameWorker extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.appendChild(this.frame)
      const scope = this.frame.contentWindow
      scope.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
      scope.importScripts = (...urls) => urls.reduce((before, next) => before.then(() => this.load(next)), Promise.resolve())
      this.ready = this.load(url)
    }

    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script")
        script.src = url
        script.onload = resolve
        script.onerror = reject
        this.frame.contentDocument.body.appendChild(script)
      })
    }

    postMessage(data) {
      const scope = this.frame.contentWindow
      this.ready.then(() => scope.dispatchEvent(new scope.MessageEvent("message", { data })))
    }

    terminate() {
      this.frame.remove()
    }
  }
  window.IFrameWorker = window.Worker = IFrameWorker
}
