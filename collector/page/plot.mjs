// The part of Observable Plot that the page uses; bundled into plot.js by `make page-bundle`.
export { plot, areaY, barX, dot, lineY, pointer, ruleX, ruleY, text, tip } from '@observablehq/plot';
