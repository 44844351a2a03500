// Which file a name is. Who starts a bare name in a folder leaves it to the system where to look, and Windows looks into that folder
// first: a gateway that is started in a workspace would be the workspace's own `penstock.exe`.
'use strict';
const { accessSync, constants, statSync } = require('node:fs');
const path = require('node:path');
const { plainError } = require('./errors');

const ENDINGS = process.platform === 'win32' ? ['', '.com', '.exe'] : [''];

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
    return true; // Windows' own aliases for programs of the store can be started and not looked at
  }
}

/** @param {string} name @param {string} searched */
function onPath(name, searched) {
  const folders = searched.split(path.delimiter).filter((each) => path.isAbsolute(each));
  return folders.flatMap((each) => ENDINGS.map((ending) => path.join(each, name + ending))).find(isProgram);
}

/**
 * The whole path of a program. Only whole folders of the search path count: the others mean wherever one happens to be.
 * @param {string} file a name, or a path @param {string} folder what a path that is not whole begins at
 * @param {string} [searched] @returns {string}
 */
function programOf(file, folder, searched = process.env.PATH ?? '') {
  const isName = path.basename(file) === file;
  const found = isName ? onPath(file, searched) : path.resolve(folder, file);
  if (found !== undefined && isProgram(found)) return found;
  throw plainError(isName ? 'there is no such program on the path' : 'there is no such program', { code: 'program_not_found' });
}

module.exports = { programOf };
