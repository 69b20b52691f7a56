#!/usr/bin/env node
// Starts the avfs binary: the one named by AVFS_BIN, or that of the package for this platform.
"use strict";

const { spawn } = require("node:child_process");
const os = require("node:os");

function binary() {
  if (process.env.AVFS_BIN) {
    return process.env.AVFS_BIN;
  }
  const platform = `agentvfs-${process.platform}-${process.arch}`;
  try {
    return require.resolve(`${platform}/bin/avfs`);
  } catch {
    console.error(
      `error: the package ${platform} is not installed\n` +
        "hint: install agentvfs again without --omit=optional, or set AVFS_BIN to an avfs binary",
    );
    process.exit(8);
  }
}

const child = spawn(binary(), process.argv.slice(2), { stdio: "inherit" });
// The terminal sends its signals to the child as well; those of other processes are passed on.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"]) {
  process.on(signal, () => {
    if (signal !== "SIGINT" && signal !== "SIGQUIT") child.kill(signal);
  });
}
child.on("error", (error) => {
  console.error(`error: avfs cannot be started: ${error.message}`);
  process.exit(8);
});
child.on("exit", (status, signal) => {
  process.exit(signal ? 128 + os.constants.signals[signal] : status);
});
