// Cases that a runtime's own HTTP or process layer decides, with the reason: {AGENT: {CASE: REASON}}.
// Such a case may fail and is then reported as "runtime"; one that passes must be removed here.

export const runtimeCases = {};
