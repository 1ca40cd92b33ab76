"""The look of every page that relatum writes or serves: colours and type, shared components, templates.

`styles/tokens.css` has the colours, the type and the sizes of arcs, `styles/text.css` marks, labels and arcs,
`styles/page.css` all else that pages have in common. `page.html` is the template that pages extend.
"""
