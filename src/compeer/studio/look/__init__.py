"""How every page looks: static/tokens.css (colours and measures), static/base.css, static/studio.js, templates/."""
