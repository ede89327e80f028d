// The parts of the page of a run, found as a reader finds them: by role, name and text.

import assert from "node:assert/strict";

export class RunPage {
  constructor(page, server) {
    this.page = page;
    this.server = server;
    this.steps = page.getByRole("article");
    this.selected = page.locator("article[aria-current=true]");
    this.timeline = page.getByRole("slider", { name: "Timeline" });
  }

  /** Opens a run, or one of its steps, and waits until steps can be read. */
  async open(run, seq) {
    const path = `/run/${encodeURIComponent(run)}${seq === undefined ? "" : `/${seq}`}`;
    await this.page.goto(this.server.origin + path);
    await this.steps.filter({ hasText: /\w/ }).first().waitFor();
    return this;
  }

  /** The record of the selected step; null without one. */
  async selectedSeq() {
    if ((await this.selected.count()) === 0) return null;
    return Number(await this.selected.getAttribute("data-seq"));
  }

  /** Waits until the step with this record is selected and in the window. */
  async waitForSelected(seq) {
    const step = this.page.locator(`article[aria-current=true][data-seq="${seq}"]`);
    await step.waitFor();
    await this.page.waitForFunction((wanted) => {
      const box = document.querySelector(`article[data-seq="${wanted}"]`)?.getBoundingClientRect();
      return box && box.bottom > 0 && box.top < innerHeight;
    }, seq).catch(async () => {
      const box = await step.boundingBox();
      assert.fail(`step ${seq} is selected, but not in the window: ${JSON.stringify(box)}`);
    });
    return step;
  }

  /** Presses a key and waits for the step that it has to select. */
  async press(key, seq) {
    await this.page.keyboard.press(key);
    await this.waitForSelected(seq);
    // The address is the permalink of the step, once the reader stays there for a moment.
    await this.page.waitForURL(new RegExp(`/${seq}$`));
  }

  /** The number of different colours on the canvas of the timeline. */
  colours() {
    return this.timeline.locator("canvas").first().evaluate((canvas) => {
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const found = new Set();
      for (let at = 0; at < data.length; at += 4) found.add((data[at] << 16) | (data[at + 1] << 8) | data[at + 2]);
      return found.size;
    });
  }
}
