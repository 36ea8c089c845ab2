// The part of Observable Plot that the page uses; bundled into plot.js by `make page-bundle`.
export { plot, areaY, axisX, axisY, barX, dot, gridX, gridY, lineY, pointer, ruleX, ruleY, text, tip } from '@observablehq/plot';
