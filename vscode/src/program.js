// Resolve a program name to a file. If a bare name is started in a folder, Windows searches that folder first: a gateway that is
// started in a workspace would run the workspace's own `penstock.exe`.
'use strict';
const { accessSync, constants, statSync } = require('node:fs');
const path = require('node:path');
const { plainError } = require('./errors');

const SUFFIXES = process.platform === 'win32' ? ['', '.com', '.exe'] : [''];

/** @param {string} file */
function isProgram(file) {
  try {
    accessSync(file, constants.X_OK);
  } catch {
    return false;
  }
  try {
    return !statSync(file).isDirectory();
  } catch {
    return true; // Windows aliases for Store apps can be started but not inspected
  }
}

/** @param {string} name @param {string} searchPath */
function onPath(name, searchPath) {
  const folders = searchPath.split(path.delimiter).filter((each) => path.isAbsolute(each));
  return folders.flatMap((each) => SUFFIXES.map((suffix) => path.join(each, name + suffix))).find(isProgram);
}

/**
 * Returns the absolute path of a program. Only absolute folders of the search path are used: the others depend on the
 * current folder. @param {string} file a name or a path @param {string} folder the base of a relative path
 * @param {string} [searchPath] @returns {string}
 */
function programOf(file, folder, searchPath = process.env.PATH ?? '') {
  const isName = path.basename(file) === file;
  const found = isName ? onPath(file, searchPath) : path.resolve(folder, file);
  if (found !== undefined && isProgram(found)) return found;
  throw plainError(isName ? 'there is no such program on the PATH' : 'there is no such program', { code: 'program_not_found' });
}

module.exports = { programOf };
