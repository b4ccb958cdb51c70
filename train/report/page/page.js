// The sections of the page.

const detailParts = [
  ['Speed', speedPart], ['Held-out examples', examplesPart], ['Over training', recordingPart], ['Accuracy', accuracyPart], ['Attention', attentionPart],
  ['Model and weights', weightsPart], ['History', historyPart],
  ['Config', configPart]];

/** "copy (seq2seq)", or "2 runs (seq2seq): copy, sort"; the kind of the model, if all runs have the same. */
function pageName() {
  const names = runs.map((run) => run.name).join(', ');
  const {kind} = runs[0], ofKind = kind && runs.every((run) => run.kind === kind) ? ` (${kind})` : '';
  return runs.length === 1 ? `${names}${ofKind}` : `${runs.length} runs${ofKind}: ${names}`;
}

function build() {
  document.title = `${pageName()} - Tapestry report`;
  document.getElementById('subtitle').prepend(`${pageName()}; written ${data.time} by ${data.program}`);
  const main = document.getElementById('main');
  main.append(overviewSection(), curvesSection());
  if (runs.length > 1) main.append(comparisonSection());
  if (data.details) {
    const hosts = detailParts.map(([title]) => {
      const host = el('div', {});
      return [section(title, host), host];
    });
    const show = (i) => {
      redrawWithTheme.length = 0;
      detailParts.forEach(([, part], k) => hosts[k][1].replaceChildren(...[part(runs[i])].flat(Infinity).filter((x) => x != null)));
    };
    const best = runs.indexOf(rankedRuns()[0]);
    if (runs.length > 1) {
      const list = choice('Sections below are about the run', runs.map((run) => run.name), show, best);
      showRun = (i) => {
        if (i == null) return;
        list.querySelector('select').value = i;
        show(i);
      };
      main.append(el('div', {class: 'controls'}, list));
    }
    main.append(...hosts.map(([part]) => part));
    show(best);
  } else {
    main.append(el('p', {}, 'Models, examples, attention and logs of the runs are left out: ', el('code', {}, 'tapestry report RUN'), ' shows those of a run.'));
  }
  redrawCharts();
  performance.mark('charts drawn');  // see tests/report/check_pages.py
  let width = 0;
  new ResizeObserver(() => {
    if (main.clientWidth !== width) { width = main.clientWidth; redrawCharts(); }
  }).observe(main);
}

/** Reloads the page while a run is in progress, with the settings of the charts. */
function startReload() {
  const seconds = 20, place = `tapestry-view ${location.pathname}`, settings = ['from', 'to', 'smoothing', 'logX', 'logY', 'means'];
  const store = (use) => { try { use(sessionStorage); } catch { /* a file may have no storage */ } };
  store((storage) => Object.assign(view, JSON.parse(storage.getItem(place) || '{}')));
  if (!runs.some((run) => run.in_progress)) return;
  const box = checkbox(`reload every ${seconds} seconds`, true, () => {});
  document.getElementById('subtitle').append('. The run is in progress: ', box);
  setInterval(() => {
    if (!box.querySelector('input').checked || document.hidden) return;
    store((storage) => storage.setItem(place, JSON.stringify(Object.fromEntries(settings.map((key) => [key, view[key]])))));
    location.reload();
  }, 1000 * seconds);
}

startTheme();
startReload();
build();
