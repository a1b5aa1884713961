// The site of the pages in docs/. VIRTWARD_SITE_VERSIONS lists the versions of the site, the one that is built first; the others are
// folders beside it.
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitepress'

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..')
const docs = process.env.VIRTWARD_SITE_DOCS || path.join(root, 'docs')
const versions = (process.env.VIRTWARD_SITE_VERSIONS || 'main').split(',')
const version = process.env.VIRTWARD_SITE_VERSION || versions[0]
const base = (name) => (name === versions[0] ? '/' : `/${name}/`)
const source = 'https://github.com/virtward/virtward/blob/' + version

// paths reads docs/README.md: a heading of level 2 for each reader, and a link with the title of each page. It is the sidebar.
function paths() {
  const groups = []
  for (const line of fs.readFileSync(path.join(docs, 'README.md'), 'utf8').split('\n')) {
    const heading = /^## (.*)/.exec(line)
    const item = /^(?:- |\| )\[([^\]]+)\]\(([^)#]+)\)/.exec(line)
    if (heading) {
      groups.push({ text: heading[1], collapsed: true, items: [] })
    } else if (item && groups.length > 0 && !item[2].startsWith('..')) {
      groups.at(-1).items.push({ text: item[1].replaceAll('`', ''), link: '/' + item[2].replace(/README\.md$/, '').replace(/\.md$/, '') })
    }
  }
  return groups
}

// sourceLinks sends links that leave docs/ to the source, where these files are.
function sourceLinks(md) {
  md.core.ruler.push('source-links', (state) => {
    const folder = path.dirname(path.join(docs, state.env.relativePath ?? ''))
    for (const token of state.tokens.flatMap((t) => t.children ?? [])) {
      const href = token.type === 'link_open' ? token.attrGet('href') : null
      if (!href || /^([a-z]+:|#|\/)/.test(href)) {
        continue
      }
      token.attrSet('href', href.replace(/(^|\/)README\.md(?=#|$)/, '$1./'))
      const target = path.resolve(folder, decodeURI(href.split('#')[0]))
      if (target !== docs && !target.startsWith(docs + path.sep)) {
        token.attrSet('href', source + '/' + path.relative(path.dirname(docs), target) + (href.includes('#') ? href.slice(href.indexOf('#')) : ''))
      }
    }
  })
}

// literal keeps Vue from reading braces in texts, such as those of templates in other languages.
function literal(md) {
  for (const rule of ['text', 'code_inline']) {
    const render = md.renderer.rules[rule]
    md.renderer.rules[rule] = (...args) => render(...args).replaceAll('{{', '&#123;&#123;')
  }
}

// anchor is the anchor that GitHub gives a heading.
const anchor = (title) => title.trim().toLowerCase().replace(/[^\p{L}\p{N}_ -]/gu, '').replaceAll(' ', '-')

export default defineConfig({
  title: 'Virtward',
  description: 'The admission and policy platform for virtual machines on Kubernetes',
  lang: 'en',
  head: [['link', { rel: 'icon', href: 'data:,' }]], // without it, browsers ask for /favicon.ico
  base: base(version),
  srcDir: docs,
  outDir: process.env.VIRTWARD_SITE_OUT || path.join(root, 'bin/site'),
  cacheDir: path.join(root, 'bin/site-cache'),
  rewrites: (id) => id.replace(/README\.md$/, 'index.md'),
  metaChunk: true,
  markdown: {
    anchor: { slugify: anchor },
    toc: { slugify: anchor },
    headers: { slugify: anchor },
    config: (md) => { sourceLinks(md); literal(md) },
    languageAlias: { rego: 'ruby', console: 'shellsession', cel: 'js' },
  },
  vite: { build: { chunkSizeWarningLimit: 10000 } },
  themeConfig: {
    nav: [
      { text: 'Install', link: '/install' },
      { text: 'Policies', link: '/policies' },
      { text: 'Rules', link: '/rules' },
      { text: 'Commands', link: '/cli/' },
      { text: 'Playground', link: base(versions[0]) + 'play/', target: '_self', rel: '' },
      { text: version, items: versions.map((name) => ({ text: name, link: base(name), target: '_self', rel: '' })) },
    ],
    sidebar: paths(),
    outline: { level: [2, 3] },
    search: {
      provider: 'local',
      options: {
        // An id such as arm64-disk-bus is found by its parts, and as a whole.
        miniSearch: {
          options: { tokenize: (text) => text.split(/[\s.,:;()[\]{}"'`|/]+/).flatMap((word) => (word.includes('-') ? [word, ...word.split('-')] : [word])) },
          searchOptions: { combineWith: 'AND', prefix: true, fuzzy: false, boost: { title: 8, text: 1, titles: 2 } },
        },
      },
    },
    socialLinks: [{ icon: 'github', link: 'https://github.com/virtward/virtward' }],
    editLink: { pattern: 'https://github.com/virtward/virtward/edit/main/docs/:path' },
  },
})
