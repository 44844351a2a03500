// Another window that installs an environment. Started as `node install_once.js STORAGE WHEEL`.
'use strict';
const { vscode, extension, log, cancellation } = require('./fake');
const { createEnvironment } = extension('environment.js');

vscode.window.withProgress = (_options, task) => task({ report() {} }, cancellation().token);
const [storage, wheel] = process.argv.slice(2);
createEnvironment(storage, wheel, log()).catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
