#include "reports/pages/parts.h"
#include "reports/pictures/page_parts.h"

namespace lockstep::reports {

// Adds to what is there, and takes nothing away that a reader could not bring back.
std::string run_page_script() {
  return switching_script(R"js(
  // The scenarios: by name, and by whether they hold.
  function addFilter(section) {
    var rows = all('tbody tr', section);
    var controls = made('div', '', {'class': 'controls'});
    var name = made('input', '', {type: 'search', id: 'filter-name', autocomplete: 'off'});
    var kind = made('select', '', {id: 'filter-kind'});
    var shown = made('p', '', {role: 'status', id: 'filter-status'});
    [['', 'all'], ['open', 'what does not hold'], ['pass', 'passes'], ['skip', 'skipped']].forEach(function (each) {
      kind.appendChild(made('option', each[1], {value: each[0]}));
    });
    [['Scenarios named', name], ['Show', kind]].forEach(function (each) {
      var label = made('label', each[0], {'for': each[1].id});
      label.appendChild(each[1]);
      controls.appendChild(label);
    });
    controls.appendChild(shown);
    function fits(cell) {
      var result = cell.getAttribute('data-result');
      if (kind.value === 'open') return ['pass', 'skip', 'not asked for'].indexOf(result) === -1;
      return kind.value === '' || result === kind.value;
    }
    function apply() {
      var count = 0;
      rows.forEach(function (row) {
        var wanted = row.getAttribute('data-scenario').indexOf(name.value.trim()) !== -1;
        row.hidden = !(wanted ? all('td', row).some(fits) : false);
        count += row.hidden ? 0 : 1;
      });
      shown.textContent = count + ' of ' + rows.length + ' scenarios shown';
    }
    name.addEventListener('input', apply);
    kind.addEventListener('change', apply);
    section.insertBefore(controls, section.querySelector('.scroll'));
    apply();
  }

  function addCopy(command) {
    var text = command.querySelector('pre');
    var button = made('button', 'Copy', {type: 'button', 'aria-label': 'Copy: ' + text.textContent});
    button.addEventListener('click', function () {
      var range = document.createRange();
      range.selectNodeContents(text);
      var selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      var done = function () { button.textContent = 'Copied'; };
      var not = function () { button.textContent = 'Selected: copy it'; };
      if (navigator.clipboard) navigator.clipboard.writeText(text.textContent).then(done, not); else not();
    });
    command.appendChild(button);
  }

  // A link to a story opens it.
  function openTarget() {
    var story = location.hash.indexOf('#story') === 0 ? document.querySelector(location.hash) : null;
    if (story) story.open = true;
  }
  window.addEventListener('hashchange', openTarget);
  openTarget();
  all('#results').forEach(addFilter);
  addSwitches('.pictures', '.picture');
  all('.command').forEach(addCopy);
)js");
}

}  // namespace lockstep::reports
