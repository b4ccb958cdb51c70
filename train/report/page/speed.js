// What a run did with its time.

const partTitles = {
  batches: 'Waiting for batches', forward: 'Forward', backward: 'Backward', anomaly_checks: 'Checks of train.detect_anomaly',
  exchange: 'Exchange of gradients', optimizer: 'Optimizer', validation: 'Validation and decoding', saving: 'Saving checkpoints',
  reports: 'Reports', recording: 'Recording'};

/** The table of the parts with their shares, in the order of a step, without parts that did not occur. */
function timeTable(speed) {
  const always = ['batches', 'forward', 'backward', 'optimizer', 'validation', 'saving'];
  const named = speed.parts.reduce((sum, p) => sum + p.seconds, 0);
  const rows = [...speed.parts.filter((p) => p.seconds > 0 || always.includes(p.name)),
    {name: 'Everything else', seconds: Math.max(0, speed.seconds - named)}];
  const part = (row) => row.seconds / speed.seconds;
  return table('Where the time of training went', [
    {title: 'Part', cell: (row) => (Object.hasOwn(partTitles, row.name) ? partTitles[row.name] : row.name)},
    {title: 'Share', number: true, cell: (row) => percent(part(row))},
    {title: 'Seconds', number: true, cell: (row) => short(row.seconds)},
    {title: 'Of all', cell: (row) => el('span', {class: 'meter', 'aria-hidden': 'true'}, el('i', {style: `width:${100 * Math.min(1, part(row))}%`}))}],
  rows, 'middle');
}

/** The table of what the run had of the machine. */
function coresTable(run, speed) {
  const cores = (seconds) => (seconds == null ? 'not known' : `${(seconds / speed.seconds).toFixed(2)} cores`);
  const rows = [
    ['Threads of the run', `${speed.threads} on ${speed.cores} ${speed.cores === 1 ? 'core' : 'cores'}`, 'more threads help if cores are free: train.threads, 0 for all'],
    ['Processor time of the run', cores(speed.processor_seconds), 'less than the threads: they waited, or other programs used the cores'],
    ['Processor time of other programs', cores(speed.other_seconds), 'on the same cores; what is left is free'],
    ['Wall time', duration(speed.seconds), speed.processes > 1 ? `of ${count(speed.processes)} processes` : 'of training, without starting the program']];
  if (speed.positions > 0) rows.push(['Padding', percent(speed.padding / speed.positions), `of ${count(speed.positions)} positions of all batches so far; the log has that of one epoch`]);
  if (run.config && /^ {2}detect_anomaly: true$/m.test(run.config)) rows.push(['train.detect_anomaly', 'on', 'each operation is checked: for finding a NaN only']);
  return table('Cores and batches', [
    {title: 'What', cell: (row) => row[0]},
    {title: 'Value', cell: (row) => row[1]},
    {title: 'How to read it', text: true, cell: (row) => row[2]}], rows);
}

/** The curves of speed, which a report of several runs draws among the others. */
const speedCurves = ['target_tokens_per_second', 'step_seconds'];
const speedCurvesText = 'Target tokens per second and seconds per step are measured over the same time: the steps since the previous log line or validation, without validations, saves and reports.';

function speedPart(run) {
  const parts = [];
  if (run.speed && run.speed.seconds > 0) {
    parts.push(el('div', {class: 'attention'}, el('div', {}, timeTable(run.speed)), el('div', {}, coresTable(run, run.speed))),
      el('p', {class: 'quiet'}, 'From time_use.csv. Shares are of the wall time of training; processor time is shown as the mean number of cores. Threads wait busily for a short time, which counts as processor time.'));
  } else {
    parts.push(el('p', {}, 'The run has no time_use.csv, so it is not known where its time went.'));
  }
  if (runs.length === 1) {
    const all = seriesByName();
    const charts = speedCurves.filter((name) => all.has(name)).map((name) => new Chart(titleOf(name)[0], all.get(name), titleOf(name)[1]));
    if (charts.length) parts.push(el('p', {class: 'quiet'}, speedCurvesText), el('div', {class: 'charts'}, charts.map((chart) => chart.host)));
  }
  const profile = profilePart(run);
  return [...parts, ...(profile.length ? profile : [el('p', {}, 'Train with ', el('code', {}, '--profile'), ' for the time of each operation.')])];
}
