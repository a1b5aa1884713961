'use strict';

const vscode = require('vscode');
const { LanguageClient, TransportKind } = require('vscode-languageclient/node');

let client;

async function start() {
  const settings = vscode.workspace.getConfiguration('virtward');
  const command = { command: settings.get('path'), args: ['lsp', ...settings.get('arguments')], transport: TransportKind.stdio };
  client = new LanguageClient('virtward', 'Virtward', command, {
    documentSelector: ['yaml', 'json'].flatMap((language) => [
      { scheme: 'file', language },
      { scheme: 'untitled', language },
    ]),
  });
  try {
    await client.start();
  } catch (error) {
    vscode.window.showErrorMessage(`Virtward: ${command.command} does not start: ${error.message}. Set virtward.path in your user settings.`);
  }
}

async function stop() {
  const stopped = client;
  client = undefined;
  await stopped?.dispose();
}

async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand('virtward.restart', async () => {
      await stop();
      await start();
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
