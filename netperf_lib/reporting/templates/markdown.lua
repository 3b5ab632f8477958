-- Cells of a notebook as typst: no box around a cell, every picture and formula with an alternative
-- text, as PDF/UA demands, no heading that skips a level, and long words that can be broken.

local function quoted(text)
  return '"' .. text:gsub('\\', '\\\\'):gsub('"', '\\"'):gsub('%s+', ' ') .. '"'
end

function Div(div)
  return div.content
end

local last = 0
function Header(header)
  last = math.min(header.level, last + 1)
  header.level = last
  header.identifier = ''
  return header
end

function Math(math_)
  local body = pandoc.write(pandoc.Pandoc { pandoc.Plain { math_ } }, 'typst'):gsub('%s+$', '')
  local alt = '#set math.equation(alt: ' .. quoted(math_.text) .. ')'
  return pandoc.RawInline('typst', '#[' .. alt .. '\n' .. body .. '];')
end

local function shows(block) -- a picture, a table or its caption
  local first = block and (block.t == 'Para' or block.t == 'Plain') and block.content[1] or block
  local call = first and first.t:match('^Raw') and first.text:match('^#(%a+)')
  return call
end

-- pictures of the cells stand beside the document, none is loaded from elsewhere; a lead, and
-- a paragraph below a heading, stay with what is shown after them
function Pandoc(doc)
  pandoc.mediabag.write('.')
  local kept = false
  for i = #doc.blocks - 1, 2, -1 do
    local block = doc.blocks[i]
    local below = block.t == 'Para' and doc.blocks[i - 1].t == 'Header'
    kept = (kept or shows(doc.blocks[i + 1])) and (below or block.t == 'BlockQuote')
    if kept then doc.blocks[i] = pandoc.Div({ block }, { ['typst:sticky'] = 'true' }) end
  end
  return doc
end

function Image(image)
  if not pandoc.mediabag.lookup(image.src) then
    return pandoc.Strong { 'picture not found: ' .. image.src }
  end
  local alt = pandoc.utils.stringify(image.caption)
  return pandoc.RawInline('typst', '#picture(' .. quoted(image.src) .. ', ' .. quoted(alt) .. ');')
end

-- a caption: emphasised words alone
function Para(para)
  if #para.content == 1 and para.content[1].t == 'Emph' then
    local words = pandoc.List { pandoc.RawInline('typst', '#caption[') }
    words:extend(para.content[1].content)
    words:insert(pandoc.RawInline('typst', ']'))
    return pandoc.Plain(words)
  end
end

-- code and what it printed, without colours, with places where a long word can be broken
function CodeBlock(block)
  local text = block.text:gsub('\27%[[%d;?]*%a', ''):gsub('[\1-\8\11-\31]', '')
  block.text = text:gsub(('[!-~]'):rep(90), '%0\u{200b}')
  return text:match('%S') and block or {}
end

-- a table that is wider than the page: short columns keep their width, long ones share the
-- rest, by less than their lengths so that none is a pile of single words
local line, short = 112, 20
local function spread(table_)
  local widths, kept, shared, roots = {}, 0, 0, 0
  for column in ipairs(table_.colspecs) do
    local longest = 6
    for _, body in ipairs(table_.bodies) do
      for _, row in ipairs(body.body) do
        local text = row.cells[column] and pandoc.utils.stringify(row.cells[column].contents) or ''
        longest = math.max(longest, math.min(utf8.len(text) or #text, 110))
      end
    end
    widths[column] = longest + 4
    if longest <= short then kept = kept + widths[column] else
      shared, roots = shared + widths[column], roots + widths[column] ^ 0.7
    end
  end
  if kept + shared > line and shared > 0 then
    for column, spec in ipairs(table_.colspecs) do
      if widths[column] > short + 4 then
        table_.colspecs[column] = { spec[1], widths[column] ^ 0.7 / roots }
      end
    end
  end
end

function Table(table_)
  local rows = 0
  for _, body in ipairs(table_.bodies) do rows = rows + #body.body end
  if rows == 0 then return {} end
  table_.identifier = ''
  spread(table_)
  table_ = table_:walk {
    Str = function(str)
      if utf8.len(str.text) and utf8.len(str.text) > 24 then
        return pandoc.Str((str.text:gsub('([/_.:,;=-])', '%1\u{200b}')))
      end
    end,
  }
  local out = pandoc.write(pandoc.Pandoc { table_ }, 'typst')
  out = out:gsub('align%(center%)', 'align(left)', 1)
  -- shares of what the short columns leave
  out = out:gsub('columns: %b()', function(c) return (c:gsub('%%', 'fr')) end, 1)
  -- few rows stay together, and of many the first ones
  if rows <= 5 then out = '#block(breakable: false)[\n' .. out .. '\n]\n' else out = '#ahead(60pt)\n' .. out end
  return pandoc.RawBlock('typst', out)
end

-- a table of pandas: its numbers stand to the right, and nothing in it leads elsewhere
function RawBlock(raw)
  if raw.format ~= 'html' then return nil end
  local tables = pandoc.List {}
  pandoc.Pandoc(pandoc.read(raw.text, 'html').blocks):walk {
    Table = function(table_)
      for column, spec in ipairs(table_.colspecs) do
        local numbers = true
        for _, body in ipairs(table_.bodies) do
          for _, row in ipairs(body.body) do
            local text = pandoc.utils.stringify(row.cells[column] and row.cells[column].contents or {})
            numbers = numbers and (text == 'NaN' or text == '...' or text:match('^%-?[%d,.e+-]*$') ~= nil)
          end
        end
        table_.colspecs[column] = { numbers and 'AlignRight' or 'AlignLeft' }
      end
      tables:extend(pandoc.Blocks(Table(table_:walk {
        Link = function(link) return link.content end,
        Image = function(image) return pandoc.Str(image.src) end,
      })))
    end,
  }
  return tables
end
