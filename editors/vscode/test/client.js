// A client of the language server, on the library that editors use: node test/client.js PROGRAM FOLDER. It prints what the server
// answers about vm.yaml of the folder, as JSON.
'use strict';

const { spawn } = require('node:child_process');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');
const protocol = require('vscode-languageserver-protocol/node');

async function main([program, folder]) {
  const server = spawn(program, ['lsp'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const ended = new Promise((resolve) => server.on('exit', resolve));
  const connection = protocol.createProtocolConnection(server.stdout, server.stdin);
  const diagnosed = new Promise((resolve) => connection.onNotification(protocol.PublishDiagnosticsNotification.type, resolve));
  connection.onRequest(protocol.RegistrationRequest.type, () => {});
  connection.listen();

  const { capabilities } = await connection.sendRequest(protocol.InitializeRequest.type, {
    processId: process.pid,
    rootUri: null,
    workspaceFolders: [{ uri: pathToFileURL(folder).href, name: 'test' }],
    capabilities: { workspace: { didChangeWatchedFiles: { dynamicRegistration: true } } },
  });
  await connection.sendNotification(protocol.InitializedNotification.type, {});
  const text = readFileSync(join(folder, 'vm.yaml'), 'utf8');
  const textDocument = { uri: pathToFileURL(join(folder, 'vm.yaml')).href };
  await connection.sendNotification(protocol.DidOpenTextDocumentNotification.type, {
    textDocument: { ...textDocument, languageId: 'yaml', version: 1, text },
  });
  const lines = text.split('\n');
  const line = lines.findIndex((l) => l.includes('instancetype:'));
  const position = { line, character: lines[line].indexOf('m1.large') + 1 };
  const answers = {
    capabilities,
    diagnostics: (await diagnosed).diagnostics,
    hover: await connection.sendRequest(protocol.HoverRequest.type, { textDocument, position }),
    completion: await connection.sendRequest(protocol.CompletionRequest.type, { textDocument, position }),
    definition: await connection.sendRequest(protocol.DefinitionRequest.type, { textDocument, position }),
    lenses: await connection.sendRequest(protocol.CodeLensRequest.type, { textDocument }),
    hints: await connection.sendRequest(protocol.InlayHintRequest.type, {
      textDocument,
      range: { start: { line: 0, character: 0 }, end: { line: lines.length, character: 0 } },
    }),
  };
  await connection.sendRequest(protocol.ShutdownRequest.type);
  await connection.sendNotification(protocol.ExitNotification.type);
  console.log(JSON.stringify({ ...answers, exit: await ended }));
}

main(process.argv.slice(2)).catch((error) => {
  console.error(error);
  process.exit(1);
});
