// `midcourse serve` for a team: a people file, and data directories as projects.

import { once } from "node:events";
import { join } from "node:path";

import { midcourse, start } from "./program.js";

export class TeamServer {
  /** @param home a folder for the people file @param projects the data directory of each project */
  constructor(home, projects) {
    this.home = home;
    this.people = join(home, "people.toml");
    this.projects = projects;
  }

  /** Adds a person, and returns the token. */
  async add(name, ...projects) {
    const given = projects.flatMap((project) => ["--project", project]);
    return (await midcourse(this.home, ["serve", "add", name, ...given, "--people", this.people])).trim();
  }

  async remove(name) {
    await midcourse(this.home, ["serve", "remove", name, "--people", this.people]);
  }

  async launch() {
    const projects = Object.entries(this.projects).map(([name, folder]) => `--local-project=${name}=${folder}`);
    const args = ["serve", "--people", this.people, "--listen", "127.0.0.1:0", ...projects];
    this.child = start(process.env.MIDCOURSE_BINARY, args, this.home, ["ignore", "pipe", "pipe"]);
    let output = "";
    this.origin = await new Promise((resolve, reject) => {
      const read = (text) => {
        output += text;
        const link = /http:\/\/[^\s/]+/.exec(output);
        if (link) resolve(link[0]);
      };
      this.child.stdout.setEncoding("utf8").on("data", read);
      this.child.stderr.setEncoding("utf8").on("data", read);
      this.child.once("close", (code) => reject(new Error(`midcourse serve ended (${code}): ${output}`)));
    });
  }

  async kill() {
    const closed = once(this.child, "close");
    this.child.kill("SIGKILL");
    await closed;
  }
}
