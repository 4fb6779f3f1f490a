#include "reports/pages/parts.h"

namespace lockstep::reports {

// Adds to what is there, and takes nothing away that a reader could not bring back.
std::string_view run_page_script() {
  return R"js((function () {
  'use strict';
  function all(selector, within) { return Array.prototype.slice.call((within || document).querySelectorAll(selector)); }
  function made(tag, text, attributes) {
    var element = document.createElement(tag);
    if (text) element.textContent = text;
    Object.keys(attributes || {}).forEach(function (name) { element.setAttribute(name, attributes[name]); });
    return element;
  }

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
      if (kind.value === 'open') return ['pass', 'skip', 'not planned'].indexOf(result) === -1;
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

  // Several pictures of one case: one at a time.
  function addSwitch(pictures) {
    var sections = all('.picture', pictures);
    if (sections.length === 0 || sections.length === 1) return;
    var controls = made('div', '', {'class': 'controls', role: 'group', 'aria-label': 'Pictures'});
    var buttons = sections.map(function (section, at) {
      var button = made('button', section.firstElementChild.textContent, {type: 'button'});
      button.addEventListener('click', function () { show(at); });
      controls.appendChild(button);
      return button;
    });
    var every = made('button', 'all', {type: 'button'});
    every.addEventListener('click', function () { show(-1); });
    controls.appendChild(every);
    function show(chosen) {
      sections.forEach(function (section, at) {
        section.hidden = chosen !== -1 ? chosen !== at : false;
        buttons[at].setAttribute('aria-pressed', String(chosen === at));
      });
      every.setAttribute('aria-pressed', String(chosen === -1));
    }
    pictures.insertBefore(controls, pictures.firstChild);
    show(0);
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

  all('#results').forEach(addFilter);
  all('.pictures').forEach(addSwitch);
  all('.command').forEach(addCopy);
}());
)js";
}

}  // namespace lockstep::reports
